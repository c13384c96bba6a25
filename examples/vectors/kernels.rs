//! Softmax and attention in float32, as a project has them.

/// x, p [rows, n]; a row of minus infinities gives zeros.
pub fn softmax(x: &[f32], p: &mut [f32], n: usize) {
    for (x, p) in x.chunks_exact(n).zip(p.chunks_exact_mut(n)) {
        let high = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for (entry, share) in x.iter().zip(p.iter_mut()) {
            *share = if high.is_infinite() { 0.0 } else { (entry - high).exp() };
            total += *share;
        }
        p.iter_mut().for_each(|share| *share /= if total > 0.0 { total } else { 1.0 });
    }
}

/// The lengths of the axes of attention.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Sizes {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub q_len: usize,
    pub k_len: usize,
    pub head_dim: usize,
    pub value_dim: usize,
}

/// q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim].
/// The result is [batch, heads, q_len, value_dim].
pub fn attention(q: &[f32], k: &[f32], v: &[f32], sizes: Sizes, scale: f32, causal: bool) -> Vec<f32> {
    let Sizes { batch, heads, kv_heads, q_len, k_len, head_dim, value_dim } = sizes;
    let mut out = vec![0.0; batch * heads * q_len * value_dim];
    let (mut scores, mut weights) = (vec![0.0; k_len], vec![0.0; k_len]);
    for (row, result) in out.chunks_exact_mut(value_dim).enumerate() {
        let (i, h, b) = (row % q_len, row / q_len % heads, row / q_len / heads);
        let query = &q[row * head_dim..][..head_dim];
        let head = b * kv_heads + h / (heads / kv_heads);
        for (j, score) in scores.iter_mut().enumerate() {
            let key = &k[(head * k_len + j) * head_dim..][..head_dim];
            let product: f32 = query.iter().zip(key).map(|(x, y)| x * y).sum();
            *score = if causal && j + q_len > i + k_len { f32::NEG_INFINITY } else { product * scale };
        }
        softmax(&scores, &mut weights, k_len);
        for (j, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            let value = &v[(head * k_len + j) * value_dim..][..value_dim];
            result.iter_mut().zip(value).for_each(|(sum, x)| *sum += weight * x);
        }
    }
    out
}
