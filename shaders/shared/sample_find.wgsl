// find: the first of count weights from first on up to which they add up to more than aim, or the last one that is not 0.
fn find_{{LEVEL}}(first: u32, count: u32, aim: f32) -> Found {
    var at = first;
    var before = 0.0;
    var sum = 0.0;
    for (var i = first; i < first + count; i++) {
        let weight = {{LEVEL}}[i];
        if (weight > 0.0 && sum <= aim) {
            at = i;
            before = sum;
        }
        sum += weight;
    }
    return Found(at, aim - before);
}
