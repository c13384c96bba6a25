/* Softmax and attention in float32, as a project has them. */
#include <math.h>
#include <stddef.h>

/* x, p [rows, n]; a row of minus infinities gives zeros. */
void softmax(const float *x, float *p, long rows, long n) {
    for (long row = 0; row < rows; row++, x += n, p += n) {
        float high = -INFINITY, total = 0;
        for (long i = 0; i < n; i++) high = fmaxf(high, x[i]);
        for (long i = 0; i < n; i++) total += p[i] = isinf(high) ? 0 : expf(x[i] - high);
        for (long i = 0; i < n; i++) p[i] /= total > 0 ? total : 1;
    }
}

/* q [batch, heads, q_len, head_dim], k [batch, kv_heads, k_len, head_dim], v [batch, kv_heads, k_len, value_dim],
 * out [batch, heads, q_len, value_dim]; `weights` has room for k_len. */
void attention(const float *q, const float *k, const float *v, float *out, float *weights, long batch, long heads,
               long kv_heads, long q_len, long k_len, long head_dim, long value_dim, float scale, int causal) {
    for (long b = 0; b < batch; b++)
        for (long h = 0; h < heads; h++)
            for (long i = 0; i < q_len; i++) {
                const float *query = q + ((b * heads + h) * q_len + i) * head_dim;
                const float *keys = k + (b * kv_heads + h / (heads / kv_heads)) * k_len * head_dim;
                const float *values = v + (b * kv_heads + h / (heads / kv_heads)) * k_len * value_dim;
                float *result = out + ((b * heads + h) * q_len + i) * value_dim;
                for (long j = 0; j < k_len; j++) {
                    float product = 0;
                    for (long d = 0; d < head_dim; d++) product += query[d] * keys[j * head_dim + d];
                    weights[j] = causal && j > i + k_len - q_len ? -INFINITY : product * scale;
                }
                softmax(weights, weights, 1, k_len);
                for (long d = 0; d < value_dim; d++) {
                    result[d] = 0;
                    for (long j = 0; j < k_len; j++)
                        if (weights[j] > 0) result[d] += weights[j] * values[j * value_dim + d];
                }
            }
}
