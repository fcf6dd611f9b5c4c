    // The sums of squares of all lanes, joined: {{TO}}.
    sums[lane] = sum;
    workgroupBarrier(); // one, and lane 0 adds up: on software adapters a barrier costs as much as hundreds of loads
    if (lane == 0u && index < {{COUNT}}) {
        var total = vec4<f32>();
        for (var k = 0u; k < 64u; k++) { total = rms_join(total, sums[k]); }
        squares[{{TO}}] = total;
    }
