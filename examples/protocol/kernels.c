/* Softmax and attention in float32 behind attnspec's protocol, in one file without dependencies.
 *
 *     cc -O2 kernels.c -lm -o kernels && attnspec check 'exec:./kernels'
 *
 * A question is one line of JSON, arrays are in files that it names, and an answer is one line of JSON.
 * -DSEES_NEXT makes the mistake that a query sees one key too many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SEES_NEXT
#define LAST(i, q_len, k_len) ((i) + (k_len) - (q_len) + 1)
#else
#define LAST(i, q_len, k_len) ((i) + (k_len) - (q_len))
#endif

/* The kernels */

/* x, p [rows, n]; a row of minus infinities gives zeros. */
static void softmax(const float *x, float *p, long rows, long n) {
    for (long row = 0; row < rows; row++, x += n, p += n) {
        float high = -INFINITY, total = 0;
        for (long i = 0; i < n; i++) high = fmaxf(high, x[i]);
        for (long i = 0; i < n; i++) total += p[i] = high == -INFINITY ? 0 : expf(x[i] - high);
        for (long i = 0; i < n; i++) p[i] /= total > 0 ? total : 1;
    }
}

/* q [batch, heads, q_len, dim], k [batch, kv_heads, k_len, dim], v [batch, kv_heads, k_len, value_dim],
 * out [batch, heads, q_len, value_dim]; the last query stands at the last key. */
static void attention(const float *q, const float *k, const float *v, float *out, long batch, long heads,
                      long kv_heads, long q_len, long k_len, long dim, long value_dim, float scale, int causal) {
    float *weights = malloc(sizeof(float) * (size_t)(k_len + 1));
    for (long row = 0; row < batch * heads * q_len; row++, q += dim, out += value_dim) {
        long i = row % q_len, head = row / q_len % heads, item = row / q_len / heads;
        long group = item * kv_heads + head / (heads / kv_heads);
        const float *keys = k + group * k_len * dim, *values = v + group * k_len * value_dim;
        for (long j = 0; j < k_len; j++) {
            weights[j] = 0;
            for (long d = 0; d < dim; d++) weights[j] += q[d] * keys[j * dim + d];
            weights[j] = causal && j > LAST(i, q_len, k_len) ? -INFINITY : weights[j] * scale;
        }
        softmax(weights, weights, 1, k_len);
        for (long d = 0; d < value_dim; d++) {
            out[d] = 0;
            for (long j = 0; j < k_len; j++)
                if (weights[j] > 0) out[d] += weights[j] * values[j * value_dim + d];
        }
    }
    free(weights);
}

/* The protocol */

/* The value of a key in one line of JSON, or NULL; no key of a question is the end of another one. */
static const char *value_of(const char *json, const char *key) {
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *found = json ? strstr(json, quoted) : NULL;
    return found ? found + strlen(quoted) : NULL;
}

/* Whether a value is this text. */
static int is(const char *value, const char *text) {
    return value && value[0] == '"' && !strncmp(value + 1, text, strlen(text)) && value[1 + strlen(text)] == '"';
}

/* A text without escapes, which names of files are. */
static void text_of(const char *value, char *room, size_t size) {
    size_t n = value ? strcspn(value + 1, "\"") : 0;
    snprintf(room, size, "%.*s", (int)n, value ? value + 1 : "");
}

typedef struct {
    float *data;
    long shape[8], count;
    int rank;
} array;

/* An input of a question, read from the file of arrays. */
static array input_of(const char *question, const char *name, FILE *file) {
    array x = {.count = 1};
    const char *said = value_of(value_of(question, "inputs"), name), *at = value_of(said, "shape") + 1;
    for (char *end; *at != ']'; at = end + strspn(end, ", ")) x.count *= x.shape[x.rank++] = strtol(at, &end, 10);
    x.data = malloc(sizeof(float) * (size_t)(x.count + 1));
    fseek(file, strtol(value_of(said, "offset"), NULL, 10), SEEK_SET);
    if (fread(x.data, sizeof(float), (size_t)x.count, file) != (size_t)x.count) exit(1);
    return x;
}

/* Write an output to the file of results, and answer with its shape: that of an input but for the last axis. */
static void answer(long id, const char *path, const char *name, const float *out, const array *like, long last) {
    FILE *file = fopen(path, "wb");
    long n = last;
    for (int i = 0; i + 1 < like->rank; i++) n *= like->shape[i];
    if (!file || fwrite(out, sizeof(float), (size_t)n, file) != (size_t)n || fclose(file)) exit(1);
    printf("{\"id\": %ld, \"outputs\": {\"%s\": {\"dtype\": \"float32\", \"shape\": [", id, name);
    for (int i = 0; i + 1 < like->rank; i++) printf("%ld, ", like->shape[i]);
    printf("%ld]}}}\n", last);
}

static void answer_error(long id, const char *kind, const char *says) {
    printf("{\"id\": %ld, \"error\": {\"kind\": \"%s\", \"says\": \"%s\"}}\n", id, kind, says);
}

static const char *CAPABILITIES =
    "\"protocol\": 1, \"functions\": ["
    "{\"name\": \"softmax_c\", \"operator\": \"softmax\"}, "
    "{\"name\": \"attention_c\", \"operator\": \"attention\", \"takes\": [\"scale\", \"causal\"], "
    "\"conventions\": {\"causal_alignment\": \"bottom_right\", \"empty_row\": \"zeros\"}}]";

static void call(long id, const char *question) {
    char arrays[4096], results[4096];
    text_of(value_of(question, "arrays"), arrays, sizeof arrays);
    text_of(value_of(question, "results"), results, sizeof results);
    const char *function = value_of(question, "function"), *options = value_of(question, "options");
    if (!is(value_of(question, "dtype"), "float32")) return answer_error(id, "unsupported", "float32 alone is known");
    FILE *file = fopen(arrays, "rb");
    if (!file) return answer_error(id, "failed", "the file of arrays cannot be opened");
    if (is(function, "softmax_c")) {
        array x = input_of(question, "x", file);
        long n = x.rank ? x.shape[x.rank - 1] : 0;
        softmax(x.data, x.data, n ? x.count / n : 0, n);
        answer(id, results, "p", x.data, &x, n);
        free(x.data);
    } else if (is(function, "attention_c")) {
        array q = input_of(question, "q", file), k = input_of(question, "k", file), v = input_of(question, "v", file);
        if (q.shape[0] != k.shape[0] || k.shape[0] != v.shape[0] || k.shape[1] != v.shape[1] ||
            k.shape[2] != v.shape[2] || q.shape[3] != k.shape[3] || !k.shape[1] || q.shape[1] % k.shape[1])
            return answer_error(id, "unsupported", "the shapes do not go together");
        const char *given = value_of(options, "scale"), *causal = value_of(options, "causal");
        float scale = given ? (float)strtod(given, NULL) : 1 / sqrtf((float)q.shape[3]);
        long value_dim = v.shape[3], rows = q.shape[0] * q.shape[1] * q.shape[2];
        float *out = malloc(sizeof(float) * (size_t)(rows * value_dim + 1));
        attention(q.data, k.data, v.data, out, q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3],
                  value_dim, scale, causal && *causal == 't');
        answer(id, results, "out", out, &q, value_dim);
        free(q.data), free(k.data), free(v.data), free(out);
    } else {
        answer_error(id, "question", "there is no such function");
    }
    fclose(file);
}

int main(void) {
    static char question[1 << 20];
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    while (fgets(question, sizeof question, stdin)) {
        const char *number = value_of(question, "id"), *ask = value_of(question, "ask");
        long id = number ? strtol(number, NULL, 10) : 0;
        if (is(ask, "capabilities"))
            printf("{\"id\": %ld, %s}\n", id, CAPABILITIES);
        else if (is(ask, "call"))
            call(id, question);
        else if (number)
            answer_error(id, "question", "this is neither capabilities nor call");
        else
            printf("{\"id\": null, \"error\": {\"kind\": \"question\", \"says\": \"this has no id\"}}\n");
    }
    return 0;
}
