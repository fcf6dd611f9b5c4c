// The gated delta rule in chunks of C tokens, per row and value head. With G the sums of g in a chunk, S the state before it, and, of tokens i and j <= i of one
// document, M_ij = e^(G_i - G_j), all of whose exponents are 0 or below:
//
//   a_i = e^G_i where token i sees S, else 0;  b_i = e^(G_C - G_i) where the last token sees i, else 0
//   N_ij = M_ij k_i.k_j for j < i;  T = (1 + beta N)^-1;  P_ij = M_ij q_i.k_j for j <= i
//   U = T beta (V - a K S);  O = a Q S + P U;  next S = a_C S + (b K)^T U
//
// Columns of V, U, O and S do not meet. A chunk that is not full has tokens with a = b = beta = 0 behind.
struct Params {
    t: u32,      // tokens a row
    chunks: u32, // of a row
    heads: u32,  // of values
    group: u32,  // value heads that share a key head
    // The same numbers as below, where loops end: compilers unroll what ends at a constant.
    c: u32,
    key4: u32,
    value4: u32,
}

const C = {{CHUNK}}u;
const C4 = C / 4u;
const KEY_DIM = {{KEY_DIM}}u;
const VALUE_DIM = {{VALUE_DIM}}u;
const KEY4 = {{KEY4}}u;
const VALUE4 = {{VALUE4}}u;

// What work has of a chunk of a head, in quads: numbers of each token, then matrices by rows.
const A = 0u;
const B = C4;
const BETA = 2u * C4;
const G = 3u * C4;
const FIRST = 4u * C4; // the first token of the chunk that each sees
const DG = 5u * C4;
const DBETA = 6u * C4;
const WHOLE = 7u * C4; // a_C
const T = 7u * C4 + 1u;
const P = T + C * C4;
const N = P + C * C4; // from here on in the backward pass alone
const U = N + C * C4;
const R = U + C * VALUE4; // gradients of beta (V - a K S)
const STRIDE = {{STRIDE}}u;

fn number(at: u32, i: u32) -> f32 {
    return work[at + i / 4u][i & 3u];
}
