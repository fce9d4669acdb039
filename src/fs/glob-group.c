#include "glob-group.h"

#include <stdlib.h>
#include <string.h>

#define WORDS (GLOB_NAME_MAX / 64 + 1)

/* A segment's items are matched from the last to the first: for each the positions in the name from which it, and all behind it, match up to the end. Sets of
 * positions take bounded time, where trying one way after the other would not. */
struct item {
        enum { ITEM_CHARACTER, ITEM_STAR, ITEM_GROUP } kind;
        char group;                     /* of a group: one of @?*+! */
        int is_all_behind;              /* of a star: all that follows a group of ! */
        const char *text;               /* of a character: where it stands in the pattern */
        struct glob_sequence **choices; /* of a group */
        size_t choice_count;
};

struct glob_sequence {
        struct item *items;
        size_t count;
};

/* -- reading -------------------------------------------------------------------------------------------------- */

void glob_sequence_free(struct glob_sequence *sequence)
{
        if (!sequence)
                return;
        for (size_t i = 0; i < sequence->count; i++) {
                for (size_t k = 0; k < sequence->items[i].choice_count; k++)
                        glob_sequence_free(sequence->items[i].choices[k]);
                free(sequence->items[i].choices);
        }
        free(sequence->items);
        free(sequence);
}

static int add_choice(struct item *item, const char *text, size_t size)
{
        struct glob_sequence *choice = glob_sequence_new(text, size);

        if (!choice)
                return -1;
        item->choices[item->choice_count++] = choice;
        return 0;
}

/* open: its parenthesis. */
static int read_choices(struct item *item, const char *open, const char *close)
{
        const char *part = open + 1;
        size_t count = 1;
        int depth = 0, r = 0;

        for (const char *p = part; p < close; p = glob_skip_plain(p))
                count += *p == '|';
        item->choices = calloc(count, sizeof(struct glob_sequence *));
        if (!item->choices)
                return -1;
        for (const char *p = part; r == 0 && p < close; p = glob_skip_plain(p)) {
                depth += (*p == '(') - (*p == ')');
                if (depth == 0 && *p == '|') {
                        r = add_choice(item, part, (size_t)(p - part));
                        part = p + 1;
                }
        }
        return r < 0 ? r : add_choice(item, part, (size_t)(close - part));
}

static int read_item(struct item *item, const char **at)
{
        const char *p = *at, *close = glob_group_end(p);

        *item = (struct item){.kind = close ? ITEM_GROUP : *p == '*' ? ITEM_STAR : ITEM_CHARACTER, .text = p};
        if (close) {
                item->group = *p;
                *at = close + 1;
                return read_choices(item, p + 1, close);
        }
        if (*p == '\\' && p[1])
                p++;
        else if (*p == '[' && glob_skip_plain(p) > p + 1) {
                *at = glob_skip_plain(p);
                return 0;
        }
        (void)glob_next_character(&p);
        *at = p;
        return 0;
}

static size_t count_items(const char *text, const char *end)
{
        size_t count = 0;

        for (const char *close; text < end; count++)
                text = (close = glob_group_end(text)) ? close + 1 : glob_skip_plain(text);
        return count;
}

struct glob_sequence *glob_sequence_new(const char *text, size_t size)
{
        struct glob_sequence *sequence = calloc(1, sizeof(*sequence));
        const char *end = text + size;

        if (sequence) /* characters of several bytes are one item each: it is enough */
                sequence->items = calloc(count_items(text, end) + 1, sizeof(*sequence->items));
        if (!sequence || !sequence->items) {
                free(sequence);
                return NULL;
        }
        while (text < end)
                if (read_item(&sequence->items[sequence->count++], &text) < 0) {
                        glob_sequence_free(sequence);
                        return NULL;
                }
        if (sequence->count > 1 && sequence->items[sequence->count - 2].group == '!')
                sequence->items[sequence->count - 1].is_all_behind = sequence->items[sequence->count - 1].kind == ITEM_STAR;
        return sequence;
}

/* -- sets of positions ---------------------------------------------------------------------------------------- */

struct set {
        uint64_t words[WORDS];
};

struct name {
        const char *text;
        size_t size;
        struct set starts;                 /* of its characters, and its end */
        uint16_t before[GLOB_NAME_MAX + 1]; /* where the character that ends there starts */
};

static void put(struct set *set, size_t position)
{
        set->words[position / 64] |= UINT64_C(1) << position % 64;
}

static int has(const struct set *set, size_t position)
{
        return (int)(set->words[position / 64] >> position % 64 & 1);
}

static int is_empty(const struct set *set)
{
        for (size_t i = 0; i < WORDS; i++)
                if (set->words[i])
                        return 0;
        return 1;
}

static void add(struct set *set, const struct set *other)
{
        for (size_t i = 0; i < WORDS; i++)
                set->words[i] |= other->words[i];
}

static void take_away(struct set *set, const struct set *other)
{
        for (size_t i = 0; i < WORDS; i++)
                set->words[i] &= ~other->words[i];
}

/* All characters that start at or before the last position of the set, or only before it. */
static struct set up_to(const struct name *name, const struct set *set, int only_before)
{
        struct set found = {{0}};

        for (size_t i = WORDS; i-- > 0;) {
                if (!set->words[i])
                        continue;
                for (size_t k = 0; k < i; k++)
                        found.words[k] = name->starts.words[k];
                found.words[i] = name->starts.words[i] & (UINT64_MAX >> __builtin_clzll(set->words[i]) >> only_before);
                break;
        }
        return found;
}

/* -- matching ------------------------------------------------------------------------------------------------- */

/* Where a sequence begins to match. behind: where what follows it does; tail: the same with each group around it done once, which is what `!` looks ahead to. */
static struct set before_sequence(const struct glob_sequence *sequence, const struct name *name, const struct set *behind, const struct set *tail);

static struct set before_character(const char *pattern, const struct name *name, const struct set *behind)
{
        struct set found = {{0}};

        for (size_t i = 0; i < WORDS; i++)
                for (uint64_t left = behind->words[i]; left; left &= left - 1) {
                        size_t end = i * 64 + (size_t)__builtin_ctzll(left);
                        const char *p = pattern, *t = name->text + (end ? name->before[end] : 0);

                        if (end && glob_step(&p, &t))
                                put(&found, name->before[end]);
                }
        return found;
}

static struct set before_choices(const struct item *item, const struct name *name, const struct set *behind, const struct set *tail)
{
        struct set found = {{0}};

        for (size_t i = 0; i < item->choice_count; i++) {
                const struct set one = before_sequence(item->choices[i], name, behind, tail);

                add(&found, &one);
        }
        return found;
}

/* Again from what was new each time: no position is looked at twice. */
static struct set before_repeats(const struct item *item, const struct name *name, const struct set *behind, const struct set *tail)
{
        struct set found = {{0}}, fresh = *behind;

        while (!is_empty(&fresh)) {
                fresh = before_choices(item, name, &fresh, tail);
                take_away(&fresh, &found);
                add(&found, &fresh);
        }
        return found;
}

static struct set before_group(const struct item *item, const struct name *name, const struct set *behind, const struct set *tail)
{
        struct set found, excluded;

        switch (item->group) {
        case '!':
                found = up_to(name, behind, 0);
                excluded = before_choices(item, name, tail, tail);
                take_away(&found, &excluded);
                return found;
        case '*':
        case '+':
                found = before_repeats(item, name, behind, tail);
                break;
        default:
                found = before_choices(item, name, behind, tail);
                break;
        }
        if (item->group == '*' || item->group == '?')
                add(&found, behind);
        return found;
}

/* is_tail: this is for what `!` looks ahead to, where minimatch has a lone star take at least one character: `!(a)*` matches "a", as in bash. */
static struct set before_item(const struct item *item, const struct name *name, const struct set *behind, const struct set *tail, int is_tail)
{
        switch (item->kind) {
        case ITEM_CHARACTER:
                return before_character(item->text, name, behind);
        case ITEM_STAR:
                return up_to(name, behind, is_tail && item->is_all_behind);
        case ITEM_GROUP:
                break;
        }
        return before_group(item, name, behind, tail);
}

static struct set before_sequence(const struct glob_sequence *sequence, const struct name *name, const struct set *behind, const struct set *tail)
{
        struct set found = *behind, rest = *tail;
        int is_same = memcmp(behind, tail, sizeof(*behind)) == 0;

        for (size_t i = sequence->count; i-- > 0;) {
                const struct item *item = &sequence->items[i];

                found = before_item(item, name, &found, &rest, 0);
                is_same &= !item->is_all_behind;
                if (is_same)
                        rest = found;
                else if (i > 0)
                        rest = before_item(item, name, &rest, &rest, 1);
        }
        return found;
}

int glob_sequence_matches(const struct glob_sequence *sequence, const char *text, const char *end)
{
        struct name name = {.text = text, .size = (size_t)(end - text)};
        struct set last = {{0}}, found;

        if (name.size > GLOB_NAME_MAX)
                return 0;
        for (const char *p = text; p < end;) {
                const char *from = p;

                put(&name.starts, (size_t)(p - text));
                (void)glob_next_character(&p);
                name.before[p - text] = (uint16_t)(from - text);
        }
        put(&name.starts, name.size);
        put(&last, name.size);
        found = before_sequence(sequence, &name, &last, &last);
        return has(&found, 0);
}
