/* The kernels of kernels.c, judged by vectors: cc -O2 check.c -lm -o check && ./check [-v] DIR */
#include "attnspec_vectors.h"
#include "kernels.c"

/* Of any dtype, computed in float32. */
static int check_softmax(av_vector *v) {
    const av_tensor *x = av_input(v, "x");
    if (!av_only(v, "x")) return AV_NOT_TAKEN;
    long n = x->shape[x->rank - 1];
    float *p = av_room(NULL, sizeof(float) * (size_t)x->count);
    for (long i = 0; i < x->count; i++) p[i] = (float)av_entry(x, i);
    softmax(p, p, n ? x->count / n : 0, n);
    double *out = av_output(v, "p");
    for (long i = 0; i < x->count; i++) out[i] = p[i];
    free(p);
    return AV_DONE;
}

/* Of float32 alone, on the bits of the vector. */
static int check_attention(av_vector *vector) {
    const av_tensor *q = av_input(vector, "q"), *k = av_input(vector, "k"), *v = av_input(vector, "v");
    if (!av_only(vector, "q k v scale causal") || strcmp(q->dtype, "F32") || strcmp(k->dtype, "F32"))
        return AV_NOT_TAKEN;
    float *out = av_room(NULL, sizeof(float) * (size_t)av_count(vector, "out"));
    float *weights = av_room(NULL, sizeof(float) * (size_t)k->shape[2]);
    float scale = (float)av_number(vector, "scale", 1 / sqrt((double)q->shape[3]));
    attention(q->data, k->data, v->data, out, weights, q->shape[0], q->shape[1], k->shape[1], q->shape[2], k->shape[2],
              q->shape[3], v->shape[3], scale, av_flag(vector, "causal"));
    double *result = av_output(vector, "out");
    for (long i = 0; i < av_count(vector, "out"); i++) result[i] = out[i];
    free(out), free(weights);
    return AV_DONE;
}

int main(int argc, char **argv) {
    return av_main(argc, argv, (av_kernel[]){{"softmax", check_softmax}, {"attention", check_attention}, {0}});
}
