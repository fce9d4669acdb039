/* Match a path with a glob. Runs in: cloche-fs, cloche-sync, cloche-files and the engine; pure. */
#include "glob.h"
#include "glob-group.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_MAX 512
#define LITERAL_OPENERS_MAX 16
#define RANGE_DIGITS_MAX 15

enum segment_kind {
        SEGMENT_ANY_DEPTH, /* "**" */
        SEGMENT_PLAIN,     /* without special characters */
        SEGMENT_ENDING,    /* "*" and then a plain ending */
        SEGMENT_PATTERN,
        SEGMENT_GROUPS, /* with classes or extended globs */
};

struct segment {
        enum segment_kind kind;
        const char *text; /* terminated; of an ending the text after the "*" */
        size_t size;
        struct glob_sequence *groups; /* of SEGMENT_GROUPS */
};

/* One pattern without braces, split into segments. */
struct alternative {
        char *text; /* storage of the segments' texts */
        struct segment *segments;
        size_t count;
        int is_everything; /* matches the mount itself too */
};

struct glob {
        struct alternative *alternatives;
        size_t count;
        int is_negated;
};

/* -- characters ----------------------------------------------------------------------------------------------- */

/* The code point at *at, which advances. A byte that begins none stands for itself, outside
 * Unicode's range. The NUL at the end also ends a character, so reading four bytes is safe at any
 * place. */
uint32_t glob_next_character(const char **at)
{
        uint32_t c;
        size_t size = utf8_decode(*at, 4, &c);

        if (size == 0)
                c = 0x110000u + (unsigned char)**at;
        *at += size > 0 ? size : 1;
        return c;
}

/* -- one segment ---------------------------------------------------------------------------------------------- */

/* minimatch's classes are Unicode categories; here they hold their ASCII characters only. */
static int is_punctuation(int c)
{
        return c && strchr("!\"#%&'()*,-./:;?@[\\]_{}", c) != NULL;
}

static int is_word(int c)
{
        return isalnum(c) || c == '_';
}

static int is_ascii(int c)
{
        return c < 0x80;
}

struct named_class {
        const char *text;
        int (*holds)(int);
};

/* The named class that begins here. NULL: the bracket is a member. */
static const struct named_class *named_class(const char *p)
{
        static const struct named_class rows[] = {
                {"[:alnum:]", isalnum}, {"[:alpha:]", isalpha},        {"[:ascii:]", is_ascii}, {"[:blank:]", isblank},
                {"[:cntrl:]", iscntrl}, {"[:digit:]", isdigit},        {"[:graph:]", isgraph},  {"[:lower:]", islower},
                {"[:print:]", isprint}, {"[:punct:]", is_punctuation}, {"[:space:]", isspace},  {"[:upper:]", isupper},
                {"[:word:]", is_word},  {"[:xdigit:]", isxdigit},
        };

        for (size_t i = 0; *p == '[' && i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strncmp(p, rows[i].text, strlen(rows[i].text)) == 0)
                        return &rows[i];
        return NULL;
}

/* The "]" that ends the class; p: after its "[". It is not the first member. NULL: the bracket
 * is literal. */
static const char *class_end(const char *p)
{
        p += *p == '!' || *p == '^';
        for (int first = 1; *p; first = 0) {
                const struct named_class *named = named_class(p);

                if (*p == ']' && !first)
                        return p;
                p += named ? strlen(named->text) : *p == '\\' && p[1] ? 2 : 1;
        }
        return NULL;
}

static uint32_t class_character(const char **at)
{
        *at += **at == '\\' && (*at)[1];
        return glob_next_character(at);
}

/* A range whose end is before its start is no member. A class without members matches nothing,
 * negated or not, and so does one with a range to a named class. */
int glob_in_class(const char *p, const char *end, uint32_t c)
{
        int negated = *p == '!' || *p == '^', found = 0, has_member = 0;
        const struct named_class *named;

        p += negated;
        while (p < end) {
                uint32_t from, to;

                if ((named = named_class(p))) {
                        found |= c < 0x80 && named->holds((int)c) != 0;
                        has_member = 1;
                        p += strlen(named->text);
                        continue;
                }
                from = to = class_character(&p);
                if (p[0] == '-' && p + 1 < end) {
                        if (named_class(++p))
                                return 0;
                        to = class_character(&p);
                }
                has_member |= from <= to;
                found |= c >= from && c <= to;
        }
        return has_member && found != negated;
}

/* Match one pattern character or '?' against one of the text; both advance on a match. "*" and
 * classes do not occur here. */
static int step(const char **pattern, const char **text)
{
        const char *p = *pattern, *t = *text;
        uint32_t c = glob_next_character(&t);
        int is_any = *p == '?';

        p += *p == '\\' && p[1];
        if (glob_next_character(&p) != c && !is_any)
                return 0;
        *pattern = p;
        *text = t;
        return 1;
}

/* Backtracking to the last "*" suffices: an earlier one could not match anything that this one
 * cannot. */
static int characters_match(const char *pattern, const char *text, const char *end)
{
        const char *star = NULL, *resume = NULL;

        while (text < end) {
                if (*pattern == '*') {
                        while (*pattern == '*')
                                pattern++;
                        star = pattern;
                        resume = text;
                } else if (!*pattern || !step(&pattern, &text)) {
                        if (!star)
                                return 0;
                        glob_next_character(&resume);
                        pattern = star;
                        text = resume;
                }
        }
        while (*pattern == '*')
                pattern++;
        return !*pattern;
}

static int segment_matches(const struct segment *s, const char *text, const char *end)
{
        size_t size = (size_t)(end - text);

        switch (s->kind) {
        case SEGMENT_PLAIN:
                return size == s->size && memcmp(text, s->text, size) == 0;
        case SEGMENT_ENDING:
                return size >= s->size && memcmp(end - s->size, s->text, s->size) == 0;
        case SEGMENT_GROUPS:
                return glob_sequence_matches(s->groups, text, end);
        case SEGMENT_ANY_DEPTH:
        case SEGMENT_PATTERN:
                break;
        }
        return characters_match(s->text, text, end);
}

/* -- many segments -------------------------------------------------------------------------------------------- */

static const char *segment_end(const char *text)
{
        const char *slash = strchr(text, '/');

        return slash ? slash : text + strlen(text);
}

/* The same algorithm with segments for characters and "**" for "*". NULL: the path is at its
 * end. */
static int segments_match(const struct alternative *a, const char *path)
{
        const char *t = path, *resume = NULL, *end;
        size_t p = 0, star = SIZE_MAX;

        while (t) {
                end = segment_end(t);
                if (p < a->count && a->segments[p].kind == SEGMENT_ANY_DEPTH) {
                        star = ++p;
                        resume = t;
                } else if (p < a->count && segment_matches(&a->segments[p], t, end)) {
                        p++;
                        t = *end ? end + 1 : NULL;
                } else if (star != SIZE_MAX) {
                        p = star;
                        end = segment_end(resume);
                        t = resume = *end ? end + 1 : NULL;
                } else {
                        return 0;
                }
        }
        while (p < a->count && a->segments[p].kind == SEGMENT_ANY_DEPTH)
                p++;
        return p == a->count;
}

/* Most patterns fail at their first or last segment, which needs no walk. */
static int may_match(const struct alternative *a, const char *path, const char *first_end, const char *last,
                     const char *end)
{
        const struct segment *first_segment = &a->segments[0], *last_segment = &a->segments[a->count - 1];

        if (first_segment->kind == SEGMENT_PLAIN && !segment_matches(first_segment, path, first_end))
                return 0;
        return (last_segment->kind != SEGMENT_PLAIN && last_segment->kind != SEGMENT_ENDING) ||
               segment_matches(last_segment, last, end);
}

int glob_matches(const struct glob *glob, const char *path)
{
        const char *end = path + strlen(path), *first_end = segment_end(path), *last = end;

        while (last > path && last[-1] != '/')
                last--;
        for (size_t i = 0; i < glob->count; i++) {
                const struct alternative *a = &glob->alternatives[i];

                if (!*path ? a->is_everything
                           : a->count && may_match(a, path, first_end, last, end) && segments_match(a, path))
                        return !glob->is_negated;
        }
        return glob->is_negated;
}

/* -- braces --------------------------------------------------------------------------------------------------- */

struct expansion {
        const char *pattern; /* for messages */
        char *texts[GLOB_ALTERNATIVES_MAX];
        size_t count;
        struct cloche_err *e;
};

static int too_many(const struct expansion *x)
{
        return err_set(x->e, CLOCHE_E_INVALID_ARGUMENT, "the pattern '%.80s' stands for more than %d", x->pattern,
                       GLOB_ALTERNATIVES_MAX);
}

/* Skip one character, a backslash pair or a class, inside which special characters are literal. */
const char *glob_skip_plain(const char *p)
{
        const char *end;

        if (*p == '\\' && p[1])
                return p + 2;
        if (*p == '[' && (end = class_end(p + 1)))
                return end + 1;
        return p + 1;
}

/* Skip one character or a backslash pair. As in minimatch braces are expanded before classes are
 * read: `[{a,b}]` is `[a]` or `[b]`. */
static const char *skip_escaped(const char *p)
{
        return p + (*p == '\\' && p[1] ? 2 : 1);
}

/* The brace that closes the one at p, or NULL; *ret_commas counts those at its own level. */
static const char *closing_brace(const char *p, int *ret_commas)
{
        int depth = 0;

        *ret_commas = 0;
        for (; *p; p = skip_escaped(p)) {
                depth += (*p == '{') - (*p == '}');
                *ret_commas += depth == 1 && *p == ',';
                if (depth == 0)
                        return p;
        }
        return NULL;
}

struct range {
        int64_t from, to;
        size_t width; /* with zeros in front; 0: as it comes */
};

/* Read an optional minus and up to RANGE_DIGITS_MAX digits. Returns the place after them, or
 * NULL. */
static const char *read_range_end(const char *p, int64_t *ret, size_t *ret_size, int *ret_padded)
{
        const char *digits = p + (*p == '-');
        size_t count = strspn(digits, "0123456789");

        if (count == 0 || count > RANGE_DIGITS_MAX)
                return NULL;
        *ret = strtoll(p, NULL, 10);
        *ret_size = (size_t)(digits - p) + count;
        *ret_padded |= *digits == '0' && count > 1;
        return digits + count;
}

static int is_range(const char *open, const char *close, struct range *ret)
{
        size_t from_size, to_size;
        int padded = 0;
        const char *p = read_range_end(open + 1, &ret->from, &from_size, &padded);

        if (!p || strncmp(p, "..", 2) != 0)
                return 0;
        p = read_range_end(p + 2, &ret->to, &to_size, &padded);
        ret->width = padded ? from_size > to_size ? from_size : to_size : 0;
        return p == close;
}

static int expand(struct expansion *x, const char *text);

static int expand_with(struct expansion *x, const char *text, const char *open, const char *middle, size_t middle_size,
                       const char *behind)
{
        size_t size = (size_t)(open - text) + middle_size + strlen(behind) + 1;
        char *whole = malloc(size);
        int r;

        if (!whole)
                return err_os(x->e, CLOCHE_E_RESOURCE, ENOMEM, "read a pattern");
        snprintf(whole, size, "%.*s%.*s%s", (int)(open - text), text, (int)middle_size, middle, behind);
        r = size > GLOB_BYTES_MAX ? too_many(x) : expand(x, whole);
        free(whole);
        return r;
}

static int expand_list(struct expansion *x, const char *text, const char *open, const char *close)
{
        const char *part = open + 1;
        int depth = 0, r = 0;

        for (const char *p = part; r == 0; p = skip_escaped(p)) {
                if (p == close || (depth == 0 && *p == ',')) {
                        r = expand_with(x, text, open, part, (size_t)(p - part), close + 1);
                        part = p + 1;
                }
                if (p == close)
                        return r;
                depth += (*p == '{') - (*p == '}');
        }
        return r;
}

static int expand_range(struct expansion *x, const char *text, const char *open, const char *close,
                        const struct range *range)
{
        int r = 0;

        if ((range->from > range->to ? range->from - range->to : range->to - range->from) >= GLOB_ALTERNATIVES_MAX)
                return too_many(x);
        for (int64_t i = range->from; r == 0; i += range->from <= range->to ? 1 : -1) {
                char number[24];

                r = expand_with(x, text, open, number,
                                (size_t)snprintf(number, sizeof(number), "%0*lld", (int)range->width, (long long)i),
                                close + 1);
                if (i == range->to)
                        break;
        }
        return r;
}

/* Expand the first brace with alternatives, then process the results again. */
static int expand(struct expansion *x, const char *text)
{
        for (const char *p = text; *p; p = skip_escaped(p)) {
                const char *close;
                struct range range;
                int commas;

                if (*p != '{' || !(close = closing_brace(p, &commas)))
                        continue;
                if (commas)
                        return expand_list(x, text, p, close);
                if (is_range(p, close, &range))
                        return expand_range(x, text, p, close, &range);
        }
        if (x->count == GLOB_ALTERNATIVES_MAX || strlen(text) > GLOB_BYTES_MAX)
                return too_many(x);
        x->texts[x->count] = strdup(text);
        return x->texts[x->count++] ? 0 : err_os(x->e, CLOCHE_E_RESOURCE, ENOMEM, "read a pattern");
}

/* -- compiling ------------------------------------------------------------------------------------------------ */

/* The parenthesis that closes the one at p, or NULL. */
static const char *closing_group(const char *p)
{
        int depth = 0;

        for (; *p; p = glob_skip_plain(p)) {
                depth += (*p == '(') - (*p == ')');
                if (depth == 0)
                        return p;
        }
        return NULL;
}

const char *glob_group_end(const char *p)
{
        return *p && strchr("@?*+!", *p) && p[1] == '(' ? closing_group(p + 1) : NULL;
}

/* from, to: a pattern, or a choice of a group that is `deep` groups down. */
static int check_groups(const char *from, const char *to, unsigned deep, int repeats, const char *pattern,
                        struct cloche_err *e)
{
        for (const char *p = from, *close; p < to; p = close ? close + 1 : glob_skip_plain(p)) {
                int does_repeat = *p == '*' || *p == '+', r;

                close = glob_group_end(p);
                if (!close)
                        continue;
                if (deep == GLOB_GROUPS_DEEP_MAX)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "the pattern '%.80s' has groups %u deep, at most %d are taken", pattern,
                                       deep + 1, GLOB_GROUPS_DEEP_MAX);
                if (repeats && does_repeat)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "the pattern '%.80s' has a group that repeats within one that repeats: use one "
                                       "of the two",
                                       pattern);
                if (*p != '@' && *p != '?' && memchr(p, '/', (size_t)(close - p)))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "the pattern '%.80s' has a '/' within %c(…), which is about one name", pattern,
                                       *p);
                r = check_groups(p + 2, close, deep + 1, repeats || does_repeat, pattern, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int opens_no_class(const char *p)
{
        return *p == '[' && !class_end(p + 1);
}

static int opens_no_group(const char *p)
{
        return *p && strchr("@?*+!", *p) && p[1] == '(' && !glob_group_end(p);
}

static int opens_no_brace(const char *p)
{
        struct range range;
        const char *close;
        int commas;

        return *p == '{' && (!(close = closing_brace(p, &commas)) || (commas == 0 && !is_range(p, close, &range)));
}

/* True if there are too many: each is searched for to the pattern's end, repeatedly. */
static int has_literal_openers(const char *pattern, int (*is_one)(const char *p), const char *(*skip)(const char *p))
{
        unsigned count = 0;

        for (const char *p = pattern; *p && count <= LITERAL_OPENERS_MAX; p = skip(p))
                count += is_one(p) != 0;
        return count > LITERAL_OPENERS_MAX;
}

static int refuse_others(const char *pattern, struct cloche_err *e)
{
        if (!*pattern || strlen(pattern) > GLOB_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a pattern must have 1 to %d bytes", GLOB_BYTES_MAX);
        if (has_literal_openers(pattern, opens_no_class, glob_skip_plain) ||
            has_literal_openers(pattern, opens_no_brace, skip_escaped) ||
            has_literal_openers(pattern, opens_no_group, glob_skip_plain))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the pattern '%.80s' has more than %d of '[', '{' and groups that open nothing: write a "
                               "backslash before them",
                               pattern, LITERAL_OPENERS_MAX);
        return check_groups(pattern, pattern + strlen(pattern), 0, 0, pattern, e);
}

/* Braces and commas that are left after expansion are literal; a backslash keeps them so inside
 * the braces that are written around them. */
static int append_escaped(struct buf *ret, const char *from, const char *to)
{
        int r = 0;

        for (const char *p = from, *next; r == 0 && p < to; p = next) {
                next = skip_escaped(p);
                if (strchr("{},", *p))
                        r = buf_append(ret, "\\", 1);
                if (r == 0)
                        r = buf_append(ret, p, (size_t)(next - p));
        }
        return r;
}

static int has_choices(const char *open, const char *close)
{
        int depth = 0;

        for (const char *p = open + 1; p < close; p = glob_skip_plain(p)) {
                depth += (*p == '(') - (*p == ')');
                if (depth == 0 && *p == '|')
                        return 1;
        }
        return 0;
}

/* Write a group that contains '/' with braces: `@(a/b|c)` as `{a/b,c}`, `?(a/b|c)` as `{,a/b,c}`. A
 * single choice is written as it is: braces around one are no alternatives. */
static int write_group(const char *open, const char *close, int is_optional, struct buf *ret)
{
        int depth = 0, has_choice = is_optional || has_choices(open, close), r;

        if (!has_choice)
                return buf_append(ret, open + 1, (size_t)(close - open - 1));
        r = buf_append(ret, "{,", 1 + (size_t)is_optional);
        for (const char *p = open + 1; r == 0 && p < close;) {
                const char *next = glob_skip_plain(p);

                depth += (*p == '(') - (*p == ')');
                r = *p == '|' && depth == 0 ? buf_append(ret, ",", 1) : append_escaped(ret, p, next);
                p = next;
        }
        return r < 0 ? r : buf_append(ret, "}", 1);
}

/* Inner groups are expanded in later rounds. */
static int write_groups(const char *pattern, struct buf *ret)
{
        int found = 0, r = 0;

        for (const char *p = pattern; r == 0 && *p;) {
                const char *close = glob_group_end(p), *next = close ? close + 1 : glob_skip_plain(p);
                int is_written = close && memchr(p, '/', (size_t)(close - p));

                r = is_written ? write_group(p + 1, close, *p == '?', ret) : buf_append(ret, p, (size_t)(next - p));
                found |= is_written;
                p = next;
        }
        if (r == 0)
                r = buf_append(ret, "", 1);
        return r < 0 ? r : found;
}

static int without_groups(const char *pattern, char **ret, struct cloche_err *e)
{
        char *text = strdup(pattern);
        int r = text ? 1 : -ENOMEM;

        while (r > 0) {
                struct buf written = BUF_INIT(4 * GLOB_BYTES_MAX);

                r = write_groups(text, &written);
                free(text);
                text = r < 0 ? NULL : written.data;
                if (r < 0)
                        buf_done(&written);
        }
        *ret = text;
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "read a pattern") : 0;
}

static int has_group(const char *text)
{
        for (const char *p = text; *p; p = glob_skip_plain(p))
                if (glob_group_end(p))
                        return 1;
        return 0;
}

static int classify(const char *text, struct segment *ret)
{
        size_t size = strlen(text);

        *ret = (struct segment){SEGMENT_PATTERN, text, size, NULL};
        if (strchr(text, '[') || has_group(text)) {
                ret->kind = SEGMENT_GROUPS;
                ret->groups = glob_sequence_new(text, size);
                return ret->groups ? 0 : -ENOMEM;
        }
        if (strcmp(text, "**") == 0)
                ret->kind = SEGMENT_ANY_DEPTH;
        else if (!strpbrk(text, "*?[\\"))
                ret->kind = SEGMENT_PLAIN;
        else if (*text == '*' && !strpbrk(text + 1, "*?[\\"))
                *ret = (struct segment){SEGMENT_ENDING, text + 1, size - 1, NULL};
        return 0;
}

static int cut(char *text, struct alternative *ret, const char *pattern, struct cloche_err *e)
{
        size_t count = 1;
        char *rest = text, *segment;
        int r = 0;

        for (const char *p = text; *p; p++)
                count += *p == '/';
        if (count > SEGMENTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the pattern '%.80s' has more than %d segments", pattern,
                               SEGMENTS_MAX);
        ret->text = text;
        ret->segments = calloc(count + 1, sizeof(*ret->segments));
        if (!ret->segments)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a pattern");
        while (r == 0 && (segment = strsep(&rest, "/"))) {
                if (strcmp(segment, "..") == 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the pattern '%.80s' leaves the mount", pattern);
                if (!*segment || strcmp(segment, ".") == 0) /* "/a", "./a" and "a//b" are also paths below the mount */
                        continue;
                /* Expansion may create groups that the whole pattern did not have: `{+,x}(a)`,
                 * `[/+(a)]`. */
                if (check_groups(segment, segment + strlen(segment), 0, 0, pattern, e) < 0)
                        return -(int)CLOCHE_E_INVALID_ARGUMENT;
                r = classify(segment, &ret->segments[ret->count++]);
        }
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "read a pattern");
        /* "a/" + "**" matches everything below a, but not a itself. */
        if (ret->count > 0 && ret->segments[ret->count - 1].kind == SEGMENT_ANY_DEPTH) {
                ret->is_everything = ret->count == 1;
                r = classify("*", &ret->segments[ret->count++]);
        }
        return 0;
}

/* Add to x every alternative of a pattern without negation: expand its braces, then write its
 * groups that contain '/' with braces and expand those. */
static int write_out(struct expansion *x, const char *pattern)
{
        struct expansion *outer = calloc(1, sizeof(*outer));
        int r = outer ? 0 : err_os(x->e, CLOCHE_E_RESOURCE, ENOMEM, "read a pattern");

        if (r < 0)
                return r;
        *outer = (struct expansion){.pattern = x->pattern, .e = x->e};
        r = expand(outer, pattern);
        for (size_t i = 0; i < outer->count; i++) {
                char *plain = NULL, *text = outer->texts[i];

                if (r == 0)
                        r = check_groups(text, text + strlen(text), 0, 0, x->pattern, x->e);
                if (r == 0)
                        r = without_groups(text, &plain, x->e);
                if (r == 0)
                        r = expand(x, plain);
                free(plain);
                free(text);
        }
        free(outer);
        return r;
}

static int compile(struct glob *glob, struct expansion *x, const char *pattern)
{
        int r = refuse_others(pattern, x->e);

        if (r == 0)
                r = write_out(x, pattern);
        if (r == 0 && !(glob->alternatives = calloc(x->count, sizeof(*glob->alternatives))))
                r = err_os(x->e, CLOCHE_E_RESOURCE, ENOMEM, "read a pattern");
        for (size_t i = 0; r == 0 && i < x->count; i++) {
                glob->count++;
                r = cut(x->texts[i], &glob->alternatives[i], pattern, x->e);
                x->texts[i] = NULL;
        }
        for (size_t i = 0; i < x->count; i++)
                free(x->texts[i]);
        return r;
}

int glob_compile(const char *pattern, struct glob **ret, struct cloche_err *e)
{
        struct expansion x = {.pattern = pattern, .e = e};
        struct glob *glob = calloc(1, sizeof(*glob));
        int r;

        if (!glob)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a pattern");
        for (; pattern[0] == '!' && (pattern[1] != '(' || !closing_group(pattern + 1)); pattern++)
                glob->is_negated = !glob->is_negated;
        r = compile(glob, &x, pattern);
        if (r < 0) {
                glob_free(glob);
                return r;
        }
        *ret = glob;
        return 0;
}

void glob_free(struct glob *glob)
{
        if (!glob)
                return;
        for (size_t i = 0; i < glob->count; i++) {
                for (size_t k = 0; k < glob->alternatives[i].count; k++)
                        glob_sequence_free(glob->alternatives[i].segments[k].groups);
                free(glob->alternatives[i].text);
                free(glob->alternatives[i].segments);
        }
        free(glob->alternatives);
        free(glob);
}
