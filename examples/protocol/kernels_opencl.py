"""Softmax and attention in OpenCL behind attnspec's protocol: attnspec check 'exec:python kernels_opencl.py'.

It needs pyopencl and a driver; `pip install pyopencl pocl-binary-distribution` brings one for the CPU.
Questions are read and answered as in kernels.py, which has to lie beside it.
"""

import kernels
import numpy as np
import pyopencl

WIDTH = 16
SOURCE = """
#define MERGED(room, one, two, op) for (int step = WIDTH / 2; step; step /= 2) { \
    barrier(CLK_LOCAL_MEM_FENCE); if (me < step) { one = room[me]; two = room[me + step]; room[me] = op; } } \
    barrier(CLK_LOCAL_MEM_FENCE)

/* The weights of one row, by all items of a group: its powers, and one over their sum. */
float softmax_of(global float *s, int n, local float *room) {
    int me = get_local_id(0);
    float high = -INFINITY, total = 0, a, b;
    for (int i = me; i < n; i += WIDTH) high = isnan(s[i]) ? s[i] : fmax(high, s[i]);
    room[me] = high;
    MERGED(room, a, b, isnan(a) ? a : isnan(b) ? b : fmax(a, b));
    high = room[0];
    for (int i = me; i < n; i += WIDTH) total += s[i] = high == -INFINITY ? 0 : exp(s[i] - high);
    barrier(CLK_LOCAL_MEM_FENCE);
    room[me] = total;
    MERGED(room, a, b, a + b);
    return room[0] == 0 ? 0 : 1 / room[0];
}

/* x, p [rows, n]: a group for each row; a row of minus infinities gives zeros. */
kernel void softmax(global const float *x, global float *p, int n) {
    local float room[WIDTH];
    x += get_group_id(0) * n, p += get_group_id(0) * n;
    for (int i = get_local_id(0); i < n; i += WIDTH) p[i] = x[i];
    float share = softmax_of(p, n, room);
    for (int i = get_local_id(0); i < n; i += WIDTH) p[i] *= share;
}

/* q [rows, dim] for [batch, heads, q_len], k and v [batch * kv_heads, k_len, ...], weights [rows, k_len]. */
kernel void attention(global const float *q, global const float *k, global const float *v, global float *weights,
                      global float *out, int group, int q_len, int k_len, int dim, int value_dim, float scale,
                      int causal) {
    local float room[WIDTH];
    int row = get_group_id(0), me = get_local_id(0), last = row % q_len + k_len - q_len;
    q += row * dim, weights += row * k_len, out += row * value_dim;
    k += row / q_len / group * k_len * dim, v += row / q_len / group * k_len * value_dim;
    for (int j = me; j < k_len; j += WIDTH) {
        float score = 0;
        for (int d = 0; d < dim; d++) score = fma(q[d], k[j * dim + d], score);
        weights[j] = causal && j > last ? -INFINITY : score * scale;
    }
    float share = softmax_of(weights, k_len, room);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int d = me; d < value_dim; d += WIDTH) {
        float sum = 0;
        for (int j = 0; j < k_len; j++)
            if (weights[j] != 0) sum = fma(weights[j], v[j * value_dim + d], sum);
        out[d] = sum * share;
    }
}
"""
CONTEXT = pyopencl.create_some_context(interactive=False)
QUEUE = pyopencl.CommandQueue(CONTEXT)
PROGRAM = pyopencl.Program(CONTEXT, SOURCE).build([f"-DWIDTH={WIDTH}"])


def placed(x):
    """An array in the memory of the device, which takes none without entries."""
    flags = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
    return pyopencl.Buffer(CONTEXT, flags, hostbuf=np.ascontiguousarray(x) if x.size else np.zeros(1, x.dtype))


def returned(kernel, rows, arrays, out, *numbers):
    """What a kernel writes to the last of some arrays, `out`, by a group of items for each row."""
    if out.size:
        buffers = [*map(placed, arrays), placed(out)]
        kernel(QUEUE, (rows * WIDTH,), (WIDTH,), *buffers, *numbers)
        pyopencl.enqueue_copy(QUEUE, out, buffers[-1])
    return out


def softmax(x):
    """X [..., n]."""
    n = x.shape[-1]
    return {"p": returned(PROGRAM.softmax, x.size // max(n, 1), [x], np.empty(x.shape, x.dtype), np.int32(n))}


def attention(q, k, v, scale=None, causal=False):
    """Q [batch, heads, q_len, dim], k and v [batch, kv_heads, k_len, ...]; the last query stands at the last key."""
    (batch, heads, q_len, dim), (_, kv_heads, k_len, value_dim) = q.shape, v.shape
    if k.shape != (batch, kv_heads, k_len, dim) or v.shape[0] != batch or not kv_heads or heads % kv_heads:
        raise TypeError("the shapes do not go together")
    rows = batch * heads * q_len
    numbers = map(np.int32, (heads // kv_heads, q_len, k_len, dim, value_dim))
    factor = np.float32(scale if scale is not None else dim**-0.5)
    weights, out = np.empty((rows, k_len), q.dtype), np.empty((batch, heads, q_len, value_dim), q.dtype)
    arrays = [q, k, v, weights]
    return {"out": returned(PROGRAM.attention, rows, arrays, out, *numbers, factor, np.int32(causal))}


kernels.FUNCTIONS = {"softmax_opencl": softmax, "attention_opencl": attention}
kernels.CAPABILITIES = {
    "protocol": 1,
    "functions": [
        {"name": "softmax_opencl", "operator": "softmax", "dtypes": ["float32"], "strides": True},
        {
            "name": "attention_opencl",
            "operator": "attention",
            "dtypes": ["float32"],
            "takes": ["scale", "causal"],
            "conventions": {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"},
            "strides": True,
        },
    ],
}

if __name__ == "__main__":
    kernels.main()
