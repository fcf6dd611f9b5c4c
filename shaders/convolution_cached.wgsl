// convolution_cached: the convolution of tokens that go on with rows, of which a cache keeps the latest TAPS - 1 inputs. An invocation owns an item of
// channels of a row and goes through the row's tokens. Twin: graph.CachedConvolution.Eval.
struct Params {
    count: u32, // items of all rows
    width: u32, // of a row, in items of T
}
@bind var<uniform> params: Params;
@bind var<storage, read> order: array<u32>; // rows_in_order
@bind var<storage, read> x: array<{{T}}>;
@bind var<storage, read> w: array<{{T}}>; // [channels, TAPS]
@bind var<storage, read_write> cache: array<{{T}}>; // [rows, TAPS - 1, channels]
@bind var<storage, read_write> y: array<{{T}}>;

#import "shared/main.wgsl" LANES=64
{
    let i = grid_index(workgroup, workgroups, lane, 64u);
    if (i < params.count) {
        let row = i / params.width;
        let channel = i % params.width;
{{LOAD_TAPS}}
        let own = row * {{LAST}}u * params.width + channel;
#for J in 0..LAST
        var seen_{{J}} = cache[own + {{J}}u * params.width];
#end
        for (var at = order[row]; at < order[row + 1u]; at++) {
            let token = order[at] & 0x7fffffffu;
            if (token != order[at]) { // it begins the row anew
#for J in 0..LAST
                seen_{{J}} = {{T}}(0.0);
#end
            }
            let seen_{{LAST}} = x[token * params.width + channel];
            var sum = tap_{{LAST}} * seen_{{LAST}};
#for J in 0..LAST
            sum += tap_{{J}} * seen_{{J}};
#end
            y[token * params.width + channel] = sum;
{{SHIFT}}
        }
#for J in 0..LAST
        cache[own + {{J}}u * params.width] = seen_{{J}};
#end
    }
}
