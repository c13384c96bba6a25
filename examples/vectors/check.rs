//! The kernels of kernels.rs, judged by vectors: rustc --edition 2021 -O check.rs && ./check [-v] DIR
mod attnspec_vectors;
mod kernels;

use attnspec_vectors::{Taken, Vector};

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x as f64).collect()
}

/// Of any dtype, computed in float32.
fn softmax(v: &Vector) -> Taken {
    let x = v.input("x")?;
    if !v.only(&["x"]) {
        return None;
    }
    let mut p = vec![0.0; x.count()];
    kernels::softmax(&x.floats(), &mut p, *x.shape.last()?);
    Some(vec![("p", wide(&p))])
}

/// Of float32 alone.
fn attention(vector: &Vector) -> Taken {
    let [q, k, v] = [vector.input("q")?, vector.input("k")?, vector.input("v")?];
    if !vector.only(&["q", "k", "v", "scale", "causal"]) || q.dtype != "F32" || k.dtype != "F32" {
        return None;
    }
    let sizes = kernels::Sizes {
        batch: q.shape[0],
        heads: q.shape[1],
        kv_heads: k.shape[1],
        q_len: q.shape[2],
        k_len: k.shape[2],
        head_dim: q.shape[3],
        value_dim: v.shape[3],
    };
    let scale = vector.number("scale").unwrap_or((sizes.head_dim as f64).powf(-0.5)) as f32;
    let out = kernels::attention(&q.floats(), &k.floats(), &v.floats(), sizes, scale, vector.flag("causal"));
    Some(vec![("out", wide(&out))])
}

fn main() {
    attnspec_vectors::main(&[("softmax", &softmax), ("attention", &attention)])
}
