// The state behind a chunk: what is left of the one before it, and the products of its tokens' rows of LOAD with those of OF.
let whole = work[base + WHOLE].x;
for (var e = lane; e < KEY4 * Q; e += {{LANES}}u) { // four rows of the state
    let at = 4u * (e % KEY4) * Q + e / KEY4;
#for X in 0..4
    var s_{{X}} = whole * state[at + {{X}}u * Q];
#end
    for (var j = 0u; j < count; j++) {
        let row = {{LOAD}}((start + j) * key_heads + h / p.group, e % KEY4);
        let y = {{OF}}[j * Q + e / KEY4];
#for X in 0..4
        s_{{X}} += row[{{X}}] * y;
#end
    }
#for X in 0..4
    state[at + {{X}}u * Q] = s_{{X}};
#end
}
