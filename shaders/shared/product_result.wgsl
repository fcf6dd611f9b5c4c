// Where a product lies: in c, or where its epilogue stores it.
#if EPILOGUE
#import "shared/epilogue.wgsl"
#else
#if STORE_SCALAR
@bind var<storage, read_write> c: array<f32>;
#else
@bind var<storage, read_write> c: array<vec4<f32>>;
#endif
#endif
