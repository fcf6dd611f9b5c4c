// What the kernels of attention by matrix units share. A workgroup owns {{ROWS}} rows (positions, or keys) of a head, each subgroup {{MINE}} of them, and meets
// {{COLUMNS}} columns (keys, or positions) at a time, whose operands it stages in f16. Scores start from matrices that hold -lse and -delta, and a large
// negative number where a position does not see a key.
const HEAD_DIM = {{HEAD_DIM}}u;
const EIGHTS = {{EIGHTS}}u; // of a row of a head
const ROWS = {{ROWS}}u;
const MINE = {{MINE}}u;
const COLUMNS = {{COLUMNS}}u;
const PITCH = {{PITCH}}u; // vec4s from a staged row to the next: one more than there are, against bank conflicts
const OWN_PITCH = {{OWN_PITCH}}u;
const LOWEST = -2.0e38;
const HIDDEN = -1.0e30; // the score of a key that is not seen, times the scale finite
const LOG2E = 1.4426950408889634;

var<workgroup> tile: array<vec4<u32>, {{TILE}}>;

#import "shared/matrix.wgsl"
#import "shared/attention_seen.wgsl"

// Whether a position of a sequence sees a key.
fn seen_from(sequence: u32, position: u32, key: u32) -> bool {
#if LOCAL
    return sees(position, key) && key >= keys_first(sequence, min(position, p.t - 1u));
#else
    return sees(position, key);
#endif
}

// Whether all of some positions see all of some keys.
fn all_seen(sequence: u32, position: u32, positions: u32, key: u32, keys: u32) -> bool {
    let inside = position + positions <= p.t && key + keys <= keys_end(position);
#if LOCAL
    return inside && key >= keys_first(sequence, min(position + positions, p.t) - 1u);
#else
    return inside;
#endif
}
