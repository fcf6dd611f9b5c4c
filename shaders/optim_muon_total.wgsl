// The partial sums of optim_muon_dots put together, a workgroup a matrix: to the factor of an adaptive step, or, NORM, to the scales by
// which the first step divides by the norm. Twin: (*optim.orthogonalTwin).step.
struct Params {
    partials: u32, // of a matrix
    matrices: u32,
    eps: f32,
    a: f32, // first coefficient of the step
}

@bind var<uniform> params: Params;
@bind var<storage, read> partial: array<f32>;
#if NORM
@bind var<storage, read_write> grams: array<vec2<f32>>;
@bind var<storage, read_write> steps: array<vec2<f32>>;
@bind var<storage, read_write> sums: array<vec2<f32>>;
#else
@bind var<storage, read_write> factors: array<f32>;
#endif

var<workgroup> lane_sums: array<f32, {{LANES}}>;

#import "shared/main.wgsl" LANES={{LANES}}
{
    let matrix = workgroup.y * workgroups.x + workgroup.x;
    var total = 0.0;
    if (matrix < params.matrices) {
        for (var i = lane; i < params.partials; i += {{LANES}}u) { total += partial[matrix * params.partials + i]; }
    }
    lane_sums[lane] = total;
    workgroupBarrier();
    if (lane == 0u && matrix < params.matrices) {
        var sum = 0.0;
        for (var k = 0u; k < {{LANES}}u; k++) { sum += lane_sums[k]; }
#if NORM
        let scale = 1.0 / (sqrt(sum) + params.eps);
        grams[matrix] = vec2<f32>(scale * scale, 1.0);
        steps[matrix] = vec2<f32>(scale, params.a * scale);
        sums[matrix] = vec2<f32>(scale, 1.0);
#else
        factors[matrix] = sum;
#endif
    }
}
