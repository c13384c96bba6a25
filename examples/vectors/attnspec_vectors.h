/* Judge kernels by the vectors that `attnspec vectors` wrote. Copy this file; it needs C11 and nothing else.
 *
 *     static int softmax(av_vector *v) {
 *         if (!av_only(v, "x")) return AV_NOT_TAKEN;
 *         const av_tensor *x = av_input(v, "x");
 *         my_softmax(x->data, x->shape, ...);               // x->dtype says what the bits are; av_entry reads any
 *         double *p = av_output(v, "p");                    // as many entries as are expected, in C order
 *         for (long i = 0; i < av_count(v, "p"); i++) p[i] = mine[i];
 *         return AV_DONE;
 *     }
 *     int main(int argc, char **argv) { return av_main(argc, argv, (av_kernel[]){{"softmax", softmax}, {0}}); }
 *
 * The program takes [-v] DIR and ends with 0 if all is right, 1 if not, 4 if DIR cannot be read, 5 if nothing was taken.
 * Entries that are not written to are NaN. Outputs that av_output was not asked for are not judged. */
#ifndef ATTNSPEC_VECTORS_H
#define ATTNSPEC_VECTORS_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AV_DONE, AV_NOT_TAKEN, AV_MOST = 64, AV_RANK = 8 };
static const double AV_CLEAR = 2; /* the error over the bound from which on rounding does not hide a mistake */

typedef struct { char dtype[12]; int rank; long shape[AV_RANK], count; const void *data; } av_tensor;
typedef struct { const char *key, *value; } av_pair;             /* a size, an option, or a convention with its word */
typedef struct { const char *name; av_tensor tensor; } av_array;
typedef struct { const char *name; av_tensor expected, bound; double *got, excess; long worst; } av_result;
typedef struct { const char *name, *says, *kind; long agreed; } av_candidate;
typedef struct { const char *name, *output; double excess; } av_refuted;
typedef struct {
    const char *name, *law, *label, *mechanism, *dtype, *grade, *operator_;
    av_pair sizes[AV_MOST], options[AV_MOST], follows[AV_MOST];
    av_array inputs[AV_MOST];
    av_result outputs[AV_MOST];
    av_refuted *refutes;
    int size_count, option_count, follow_count, input_count, output_count, refuted_count;
} av_vector;
typedef struct { int side, call; const char *output; double factor; av_tensor factors, places; } av_term;
typedef struct { /* several calls, and how their results stand to one another */
    const char *kind;
    av_vector *calls;
    av_term terms[AV_MOST];
    av_tensor constants[2], bound, shape; /* of these, `data` is NULL for zeros */
    int call_count, term_count;
} av_relation;
typedef struct { const char *operator_; int (*call)(av_vector *); } av_kernel;

static inline void av_fail(const char *what, const char *which) {
    fprintf(stderr, "attnspec_vectors: %s %s\n", what, which);
    exit(4);
}

static inline void *av_room(void *old, size_t bytes) {
    void *room = realloc(old, bytes ? bytes : 1);
    if (!room) av_fail("no memory for", "vectors");
    return room;
}

/* What a kernel asks for */

static inline const av_tensor *av_input(const av_vector *v, const char *name) { /* NULL where it is not passed */
    for (int i = 0; i < v->input_count; i++)
        if (!strcmp(v->inputs[i].name, name)) return &v->inputs[i].tensor;
    return NULL;
}

static inline const char *av_text(const av_vector *v, const char *option, const char *otherwise) {
    for (int i = 0; i < v->option_count; i++)
        if (!strcmp(v->options[i].key, option)) return v->options[i].value;
    return otherwise;
}

static inline double av_number(const av_vector *v, const char *option, double otherwise) { /* `null` is `otherwise`, too */
    const char *text = av_text(v, option, "null");
    return strcmp(text, "null") ? atof(text) : otherwise;
}

static inline int av_flag(const av_vector *v, const char *option) { return !strcmp(av_text(v, option, "false"), "true"); }

static inline int av_listed(const char *names, const char *name) {
    size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return 1;
    return 0;
}

static inline int av_only(const av_vector *v, const char *names) { /* whether nothing else is passed than these, as "q k v" */
    for (int i = 0; i < v->input_count; i++)
        if (!av_listed(names, v->inputs[i].name)) return 0;
    for (int i = 0; i < v->option_count; i++)
        if (!av_listed(names, v->options[i].key)) return 0;
    return 1;
}

static inline double *av_output(av_vector *v, const char *name) { /* NULL where there is no such output */
    for (int i = 0; i < v->output_count; i++) {
        av_result *one = &v->outputs[i];
        if (strcmp(one->name, name)) continue;
        if (!one->got) {
            one->got = av_room(NULL, sizeof(double) * (size_t)one->expected.count);
            for (long j = 0; j < one->expected.count; j++) one->got[j] = NAN;
        }
        return one->got;
    }
    return NULL;
}

static inline long av_count(const av_vector *v, const char *output) {
    for (int i = 0; i < v->output_count; i++)
        if (!strcmp(v->outputs[i].name, output)) return v->outputs[i].expected.count;
    return 0;
}

static inline double av_small_float(unsigned bits, int exponent_bits, int fraction_bits, int last_is_nan) {
    int bias = (1 << (exponent_bits - 1)) - 1, most = (1 << exponent_bits) - 1;
    int exponent = (int)(bits >> fraction_bits) & most;
    unsigned fraction = bits & ((1u << fraction_bits) - 1);
    double size = exponent ? ldexp(1 + ldexp(fraction, -fraction_bits), exponent - bias)
                           : ldexp(fraction, 1 - bias - fraction_bits);
    if (last_is_nan ? exponent == most && fraction == (1u << fraction_bits) - 1 : exponent == most && fraction) size = NAN;
    else if (!last_is_nan && exponent == most) size = INFINITY;
    return bits >> (exponent_bits + fraction_bits) & 1 ? -size : size;
}

static inline double av_entry(const av_tensor *t, long i) { /* an entry of any dtype */
    const char *d = t->dtype;
    if (!strcmp(d, "F64")) return ((const double *)t->data)[i];
    if (!strcmp(d, "F32")) return ((const float *)t->data)[i];
    if (!strcmp(d, "F16")) return av_small_float(((const uint16_t *)t->data)[i], 5, 10, 0);
    if (!strcmp(d, "BF16")) return av_small_float(((const uint16_t *)t->data)[i], 8, 7, 0);
    if (!strcmp(d, "F8_E4M3")) return av_small_float(((const uint8_t *)t->data)[i], 4, 3, 1);
    if (!strcmp(d, "F8_E5M2")) return av_small_float(((const uint8_t *)t->data)[i], 5, 2, 0);
    if (!strcmp(d, "I64")) return (double)((const int64_t *)t->data)[i];
    if (!strcmp(d, "I8")) return ((const int8_t *)t->data)[i];
    if (!strcmp(d, "U8") || !strcmp(d, "BOOL")) return ((const uint8_t *)t->data)[i];
    av_fail("unknown dtype", d);
    return NAN;
}

/* Files */

static inline char *av_read(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) av_fail("cannot read", path);
    long length = ftell(file);
    char *data = av_room(NULL, (size_t)length + 1);
    rewind(file);
    if (fread(data, 1, (size_t)length, file) != (size_t)length) av_fail("cannot read", path);
    fclose(file);
    data[length] = 0;
    return data;
}

static inline av_tensor av_tensor_named(const char *data, const char *name) {
    char key[512];
    uint64_t header = 0;
    av_tensor t = {.count = 1};
    for (int i = 8; i--;) header = header << 8 | (uint8_t)data[i]; /* the length is little-endian, as the entries are */
    snprintf(key, sizeof key, "\"%s\":{", name);
    const char *at = strstr(data + 8, key);
    const char *shape = at ? strstr(at, "\"shape\":[") : NULL, *offsets = at ? strstr(at, "\"data_offsets\":[") : NULL;
    if (!shape || !offsets || sscanf(strstr(at, "\"dtype\":"), "\"dtype\":\"%11[^\"]", t.dtype) != 1)
        av_fail("no tensor", key);
    for (char *end = (char *)shape + 9; *end != ']' && t.rank < AV_RANK; end += *end == ',')
        t.count *= t.shape[t.rank++] = strtol(end, &end, 10);
    t.data = data + 8 + header + strtoull(offsets + 16, NULL, 10);
    return t;
}

static inline av_tensor av_part(const char *data, const av_vector *v, const char *name, const char *ending) {
    char key[512];
    snprintf(key, sizeof key, "%s/%s%s", v->name, name, ending);
    return av_tensor_named(data, key);
}

static inline av_tensor av_shaped(char *shape) { /* of a shape as a word, without entries */
    av_tensor t = {.count = 1};
    for (char *end = shape; *end && *end != '-' && t.rank < AV_RANK; end += *end == ',')
        t.count *= t.shape[t.rank++] = strtol(end, &end, 10);
    return t;
}

/* Verdicts */

static inline double av_units(double gap, double bound, int fine) { /* an error over its bound */
    if (fine || isinf(bound)) return 0;
    return isnan(gap) || isnan(bound) || bound == 0 ? INFINITY : gap / bound;
}

static inline void av_judge(av_result *one) { /* the worst entry: its error over its bound */
    one->excess = -1;
    for (long i = 0; i < one->expected.count; i++) {
        double y = one->got[i], x = av_entry(&one->expected, i), bound = av_entry(&one->bound, i);
        double units = av_units(fabs(y - x), bound, y == x || (isnan(y) && isnan(x)));
        if (units > one->excess) one->excess = units, one->worst = i;
    }
    if (one->excess < 0) one->excess = 0;
}

static inline int av_like(double excess, double known) { /* whether an error may be that of a mistake; 0 is not refuted */
    if (excess <= 1) return known <= AV_CLEAR;
    if (known == 0 || isinf(excess) || isinf(known)) return known == excess;
    return fabs(excess - known) <= AV_CLEAR + 0.25 * fmax(excess, known);
}

static inline void av_place(const av_tensor *t, long left) { /* an entry by its axes */
    long step = t->count;
    for (int axis = 0; axis < t->rank; axis++) {
        step /= t->shape[axis];
        printf("%s%ld%s", axis ? ", " : "[", left / step, axis + 1 == t->rank ? "]" : "");
        left %= step;
    }
}

static inline void av_show(const av_vector *v, const av_result *one, int bad) {
    printf("%s %s %s %s: %s", bad ? "FAIL" : "ok  ", v->name, v->law, v->label, one->name);
    if (one->expected.count) {
        av_place(&one->expected, one->worst);
        printf(" is %.6g, expected %.6g: %.4g x the bound %.3g", one->got[one->worst],
               av_entry(&one->expected, one->worst), one->excess, av_entry(&one->bound, one->worst));
    }
    printf("\n");
}

typedef struct { av_candidate *candidates; int count, taken, skipped, failed; long outputs; } av_group;

static inline void av_agree(const av_vector *v, av_group *group, const char *output, double excess) {
    group->outputs++;
    for (int c = 0; c < group->count; c++) {
        double known = 0;
        for (int r = 0; r < v->refuted_count; r++)
            if (!strcmp(v->refutes[r].name, group->candidates[c].name) && !strcmp(v->refutes[r].output, output))
                known = v->refutes[r].excess;
        group->candidates[c].agreed += av_like(excess, known);
    }
}

static inline void av_free(av_vector *v) {
    for (int i = 0; i < v->output_count; i++) free(v->outputs[i].got);
}

static inline void av_call(av_vector *v, av_group *group, int (*call)(av_vector *), int verbose) {
    if (call(v) == AV_NOT_TAKEN) {
        group->skipped++;
        return;
    }
    if (!v->outputs[0].got) av_fail("the kernel returns no", v->outputs[0].name);
    const av_result *worst = NULL;
    group->taken++;
    for (int i = 0; i < v->output_count; i++) {
        av_result *one = &v->outputs[i];
        if (!one->got) continue;
        av_judge(one);
        if (!worst || one->excess > worst->excess) worst = one;
        av_agree(v, group, one->name, one->excess);
    }
    int bad = worst->excess > 1;
    group->failed += bad;
    if (bad || verbose) av_show(v, worst, bad);
    av_free(v);
}

static inline double av_side(const av_relation *r, int side, long i) { /* an entry of a side: a constant, and terms */
    double sum = r->constants[side].data ? av_entry(&r->constants[side], i) : 0;
    for (const av_term *t = r->terms; t < r->terms + r->term_count; t++) {
        long place = t->places.data ? (long)av_entry(&t->places, i) : i;
        if (t->side != side || place < 0) continue;
        sum += (t->factors.data ? av_entry(&t->factors, i) : t->factor) * av_output(&r->calls[t->call], t->output)[place];
    }
    return sum;
}

static inline int av_called(av_relation *r, int (*call)(av_vector *)) { /* whether the kernel takes all calls and outputs */
    for (av_vector *v = r->calls; v < r->calls + r->call_count; v++) {
        if (call(v) == AV_NOT_TAKEN) return 0;
        if (!v->outputs[0].got) av_fail("the kernel returns no", v->outputs[0].name);
    }
    for (const av_term *t = r->terms; t < r->terms + r->term_count; t++)
        for (av_result *one = r->calls[t->call].outputs; one < r->calls[t->call].outputs + r->calls[t->call].output_count; one++)
            if (!strcmp(one->name, t->output) && !one->got) return 0;
    return 1;
}

static inline void av_relate(av_vector *v, av_relation *r, av_group *group, int (*call)(av_vector *), int verbose) {
    int taken = av_called(r, call), differ = !strcmp(r->kind, "differ"), at_most = !strcmp(r->kind, "at_most"), same = 1;
    double excess = 0;
    long worst = 0;
    for (long i = 0; taken && i < r->shape.count; i++) {
        double x = av_side(r, 0, i), y = av_side(r, 1, i), bound = r->bound.data ? av_entry(&r->bound, i) : 0;
        int fine = (at_most ? x <= y : x == y) || (isnan(x) && isnan(y) && (isnan(bound) || differ));
        double units = differ ? 0 : av_units(at_most ? x - y : fabs(x - y), bound, fine);
        if (units > excess) excess = units, worst = i;
        same &= fine;
    }
    if (differ && same) excess = INFINITY;
    if (taken) {
        int bad = excess > 1;
        group->taken++, group->failed += bad;
        av_agree(v, group, "relation", excess);
        if (bad || verbose) {
            printf("%s %s %s %s: of %d calls: ", bad ? "FAIL" : "ok  ", v->name, v->law, v->label, r->call_count);
            if (differ) printf("the results are %s\n", same ? "the same" : "not the same");
            else {
                double bound = r->bound.data ? av_entry(&r->bound, worst) : 0;
                printf("one side");
                av_place(&r->shape, worst);
                printf(" is %.6g, the other %.6g: %.4g x the bound %.3g\n", av_side(r, 0, worst), av_side(r, 1, worst),
                       excess, bound);
            }
        }
    } else {
        group->skipped++;
    }
    for (int i = 0; i < r->call_count; i++) av_free(&r->calls[i]);
}

static inline void av_tell(const av_vector *v, const av_group *group) {
    printf("%s %s: %d of %d vectors fail", v->mechanism, v->dtype, group->failed, group->taken);
    if (group->skipped) printf(", %d not taken", group->skipped);
    printf("\n");
    if (!group->failed) return;
    const av_candidate *nearest = group->candidates;
    int fits = 0;
    for (const av_candidate *c = group->candidates; c < group->candidates + group->count; c++) {
        if (c->agreed > nearest->agreed) nearest = c;
        if (c->agreed == group->outputs && fits++ < 3) printf("  like %s: %s\n", c->name, c->says);
    }
    if (fits) return;
    printf("  like no known mistake");
    if (group->count) printf("; nearest is %s, on %ld of %ld outputs", nearest->name, nearest->agreed, group->outputs);
    printf("\n");
}

/* The index: a line is a word and what belongs to it, separated by single blanks */

static inline char *av_word(char **rest) { /* the next word, which is cut off */
    char *word = *rest, *end = strchr(word, ' ');
    *rest = end ? end + 1 : word + strlen(word);
    if (end) *end = 0;
    return word;
}

static inline av_pair av_pair_of(char *rest) {
    av_pair pair = {av_word(&rest), rest};
    size_t length = strlen(rest);
    if (length > 1 && *rest == '"') rest[length - 1] = 0, pair.value = rest + 1; /* a text in JSON */
    return pair;
}

static inline int av_check(const char *folder, const av_kernel *kernels, int verbose) {
    char *index = av_read(folder, "index.txt"), *tensors = NULL;
    av_vector v = {0}, *at = &v; /* `at` is the call that lines speak of */
    av_relation r = {0};
    av_group group = {0};
    const av_kernel *kernel = NULL;
    int taken = 0, failed = 0;
    if (strncmp(index, "attnspec-vectors 2\n", 19)) av_fail("not a set of vectors of format 2:", folder);
    for (char *line = index, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        char *rest = line, *kind = av_word(&rest);
        int related = !strcmp(kind, "relation"), begins = related || !strcmp(kind, "vector"), group_ends = !strcmp(kind, "mechanism") || !next;
        if ((begins || group_ends) && v.name && kernel && kernel->operator_) {
            if (r.call_count) av_relate(&v, &r, &group, kernel->call, verbose);
            else av_call(&v, &group, kernel->call, verbose);
        }
        if (begins || group_ends) v.name = NULL, at = &v;
        if (group_ends && kernel && kernel->operator_) {
            av_tell(&v, &group);
            taken += group.taken, failed += group.failed;
        }
        if (!strcmp(kind, "mechanism")) {
            v.mechanism = av_word(&rest), v.dtype = av_word(&rest), v.grade = av_word(&rest);
            v.operator_ = av_word(&rest);
            free(tensors), free(group.candidates);
            tensors = NULL, group = (av_group){0};
            for (kernel = kernels; kernel->operator_ && strcmp(kernel->operator_, v.operator_);) kernel++;
            if (kernel->operator_) tensors = av_read(folder, rest);
        } else if (!strcmp(kind, "mistake") || !strcmp(kind, "convention")) {
            group.candidates = av_room(group.candidates, sizeof(av_candidate) * (size_t)(group.count + 1));
            const char *name = av_word(&rest);
            group.candidates[group.count++] = (av_candidate){name, rest, kind, 0};
        } else if (begins) {
            v.name = av_word(&rest), v.law = av_word(&rest), v.label = rest;
            v.size_count = v.option_count = v.follow_count = v.input_count = v.output_count = v.refuted_count = 0;
            free(r.calls);
            r = (av_relation){0};
        } else if (!tensors) {
            continue;
        }
        if (at->size_count + at->option_count + at->follow_count + at->input_count + at->output_count >= AV_MOST ||
            r.term_count >= AV_MOST)
            av_fail("too much of", v.name);
        if (!strcmp(kind, "size")) at->sizes[at->size_count++] = av_pair_of(rest);
        else if (!strcmp(kind, "option")) at->options[at->option_count++] = av_pair_of(rest);
        else if (!strcmp(kind, "follows")) at->follows[at->follow_count++] = av_pair_of(rest);
        else if (!strcmp(kind, "input")) v.inputs[v.input_count++] = (av_array){rest, av_part(tensors, &v, rest, "")};
        else if (!strcmp(kind, "output"))
            v.outputs[v.output_count++] = (av_result){rest, av_part(tensors, &v, rest, ".expected"),
                                                      av_part(tensors, &v, rest, ".bound"), NULL, 0, 0};
        else if (!strcmp(kind, "call")) {
            r.calls = av_room(r.calls, sizeof(av_vector) * (size_t)(r.call_count + 1));
            at = &r.calls[r.call_count++];
            *at = v;
        } else if (!strcmp(kind, "pass")) {
            const char *name = av_word(&rest);
            at->inputs[at->input_count++] = (av_array){name, av_tensor_named(tensors, rest)};
        } else if (!strcmp(kind, "result")) {
            const char *name = av_word(&rest);
            at->outputs[at->output_count++] = (av_result){.name = name, .expected = av_shaped(rest)};
        } else if (!strcmp(kind, "compare")) {
            r.kind = av_word(&rest), r.shape = av_shaped(rest);
        } else if (!strcmp(kind, "constant")) {
            int side = !strcmp(av_word(&rest), "right");
            r.constants[side] = av_tensor_named(tensors, rest);
        } else if (!strcmp(kind, "bound")) {
            r.bound = av_tensor_named(tensors, rest);
        } else if (!strcmp(kind, "term")) {
            av_term *t = &r.terms[r.term_count++];
            t->side = !strcmp(av_word(&rest), "right"), t->call = atoi(av_word(&rest)), t->output = av_word(&rest);
            const char *factor = av_word(&rest);
            if (strchr(factor, '/')) t->factors = av_tensor_named(tensors, factor);
            else t->factor = atof(factor);
            if (strcmp(rest, "all")) t->places = av_tensor_named(tensors, rest);
        } else if (!strcmp(kind, "refutes")) {
            v.refutes = av_room(v.refutes, sizeof(av_refuted) * (size_t)(v.refuted_count + 1));
            const char *name = av_word(&rest), *output = av_word(&rest);
            v.refutes[v.refuted_count++] = (av_refuted){name, output, atof(rest)};
        }
    }
    free(tensors), free(group.candidates), free(v.refutes), free(r.calls), free(index);
    return failed ? 1 : taken ? 0 : 5;
}

static inline int av_main(int argc, char **argv, const av_kernel *kernels) {
    if (argc < 2) av_fail("usage: [-v]", "DIR");
    return av_check(argv[argc - 1], kernels, argc > 2 && !strcmp(argv[1], "-v"));
}
#endif
