/* Match segments with groups and classes.
 * Runs in: cloche-fs, cloche-sync, cloche-files and the engine; pure. */
#include "glob-group.h"
#include "glob.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A name is scanned once, from end to start. At each position the items are visited from last to
 * first: do this item and all after it match from here to the name's end? Each item stores its
 * answers for one position, so that none is computed twice. */
struct item {
        enum { ITEM_CHARACTER, ITEM_ANY, ITEM_CLASS, ITEM_STAR, ITEM_GROUP } kind;
        char group;                     /* one of @?*+! */
        int is_all_behind;              /* of a star: the rest after a ! group */
        size_t number;                  /* index within the whole segment */
        uint32_t character;             /* of a character */
        const char *from, *to;          /* of a class: after its "[", and its "]" */
        struct glob_sequence **choices; /* of a group */
        size_t choice_count;
};

struct glob_sequence {
        struct item *items;
        size_t count;
        size_t total; /* including the items of its groups */
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

/* open: the parenthesis of the group. */
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
        const char *p = *at, *close = glob_group_end(p), *next = close ? close + 1 : glob_skip_plain(p);

        *item = (struct item){.kind = ITEM_CHARACTER};
        if (close) {
                item->kind = ITEM_GROUP;
                item->group = *p;
        } else if (*p == '*' || *p == '?') {
                item->kind = *p == '*' ? ITEM_STAR : ITEM_ANY;
        } else if (*p == '[' && next > p + 1) {
                item->kind = ITEM_CLASS;
                item->from = p + 1;
                item->to = next - 1;
        } else {
                next = p + (next > p + 1); /* after a backslash */
                item->character = glob_next_character(&next);
        }
        *at = next;
        return close ? read_choices(item, p + 1, close) : 0;
}

static size_t count_items(const char *text, const char *end)
{
        size_t count = 0;

        for (const char *close; text < end; count++)
                text = (close = glob_group_end(text)) ? close + 1 : glob_skip_plain(text);
        return count;
}

/* Return the number after the last. */
static size_t number_items(struct glob_sequence *sequence, size_t from)
{
        for (size_t i = 0; i < sequence->count; i++) {
                struct item *item = &sequence->items[i];

                item->number = from++;
                for (size_t k = 0; k < item->choice_count; k++)
                        from = number_items(item->choices[k], from);
        }
        return from;
}

struct glob_sequence *glob_sequence_new(const char *text, size_t size)
{
        struct glob_sequence *sequence = calloc(1, sizeof(*sequence));
        const char *end = text + size;

        assert(size <= GLOB_BYTES_MAX);
        if (sequence) /* enough room: a multibyte character is one item */
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
                sequence->items[sequence->count - 1].is_all_behind =
                        sequence->items[sequence->count - 1].kind == ITEM_STAR;
        sequence->total = number_items(sequence, 0); /* choices are renumbered together with their segment */
        return sequence;
}

/* -- matching ------------------------------------------------------------------------------------------------- */

/* Two questions pass through a sequence together: does the rest match with each enclosing group
 * done once (the tail, to which `!` looks ahead), and does it match when a repeating group may
 * also be followed by itself? Each level of groups passes both to its choices and adds its own
 * tail. The answers are bits of a word: bit 0 belongs to the whole segment; in a sequence `deep`
 * groups down, bit deep + 1 is the tail's, and lower bits are the caller's. */
_Static_assert(GLOB_GROUPS_DEEP_MAX + 2 <= 32, "a word has a bit for each level");

struct scan {
        uint32_t character;   /* of the name; 0 at its end */
        const uint32_t *next; /* each item's answers at the next character; zero at the end */
        uint32_t *here;       /* of a character: the answers after it; of a star and `!`: all positions so far */
};

static uint32_t tail_bit(unsigned deep)
{
        return UINT32_C(2) << deep;
}

/* behind: answers for the text after the sequence; has_tail: answer for its tail. */
static uint32_t match_sequence(const struct glob_sequence *sequence, const struct scan *scan, uint32_t behind,
                               int has_tail, unsigned deep);

static int is_of(const struct item *item, uint32_t character)
{
        if (item->kind == ITEM_CLASS)
                return glob_in_class(item->from, item->to, character);
        return item->kind == ITEM_ANY || item->character == character;
}

static uint32_t match_character(const struct item *item, const struct scan *scan, uint32_t behind)
{
        uint32_t next = scan->next[item->number];

        scan->here[item->number] = behind;
        return next && is_of(item, scan->character) ? next : 0;
}

static uint32_t match_run(const struct item *item, const struct scan *scan, uint32_t behind)
{
        return scan->here[item->number] = scan->next[item->number] | behind;
}

/* In the tail, minimatch requires a star after `!` to take at least one character: `!(a)*` matches
 * "a", as in bash. */
static uint32_t match_star(const struct item *item, const struct scan *scan, uint32_t behind, unsigned deep)
{
        uint32_t least_one = item->is_all_behind ? tail_bit(deep) : 0;

        return (match_run(item, scan, behind) & ~least_one) | (scan->next[item->number] & least_one);
}

static uint32_t match_choices(const struct item *item, const struct scan *scan, uint32_t behind, int has_tail,
                              unsigned deep)
{
        uint32_t found = 0;

        for (size_t i = 0; i < item->choice_count; i++)
                found |= match_sequence(item->choices[i], scan, behind, has_tail, deep + 1);
        return found;
}

/* A repetition that matches here also counts as text after the group. A second pass suffices: it
 * completes the stored answers for earlier positions and finds nothing new here. */
static uint32_t match_repeats(const struct item *item, const struct scan *scan, uint32_t behind, int has_tail,
                              unsigned deep)
{
        uint32_t found = match_choices(item, scan, behind, has_tail, deep);

        if (found & ~behind)
                (void)match_choices(item, scan, behind | found, has_tail, deep);
        return found;
}

static uint32_t match_group(const struct item *item, const struct scan *scan, uint32_t behind, unsigned deep)
{
        uint32_t tail = behind & tail_bit(deep), found;

        switch (item->group) {
        case '!':
                found = match_run(item, scan, behind);
                return match_choices(item, scan, tail, tail != 0, deep) ? 0 : found;
        case '*':
        case '+':
                found = match_repeats(item, scan, behind, tail != 0, deep);
                break;
        default:
                found = match_choices(item, scan, behind, tail != 0, deep);
                break;
        }
        return item->group == '*' || item->group == '?' ? found | behind : found;
}

static uint32_t match_item(const struct item *item, const struct scan *scan, uint32_t behind, unsigned deep)
{
        switch (item->kind) {
        case ITEM_CHARACTER:
        case ITEM_ANY:
        case ITEM_CLASS:
                return match_character(item, scan, behind);
        case ITEM_STAR:
                return match_star(item, scan, behind, deep);
        case ITEM_GROUP:
                break;
        }
        return match_group(item, scan, behind, deep);
}

static uint32_t match_sequence(const struct glob_sequence *sequence, const struct scan *scan, uint32_t behind,
                               int has_tail, unsigned deep)
{
        uint32_t found = behind | (has_tail ? tail_bit(deep) : 0);

        for (size_t i = sequence->count; i-- > 0;)
                found = match_item(&sequence->items[i], scan, found, deep);
        return found & (tail_bit(deep) - 1);
}

int glob_sequence_matches(const struct glob_sequence *sequence, const char *text, const char *end)
{
        uint32_t answers[2][GLOB_BYTES_MAX], characters[GLOB_NAME_MAX + 1], found = 0;
        size_t count = 0;

        if (end - text > GLOB_NAME_MAX)
                return 0;
        while (text < end)
                characters[count++] = glob_next_character(&text);
        characters[count] = 0;
        memset(answers[(count + 1) % 2], 0, sequence->total * sizeof(answers[0][0]));
        for (size_t i = count + 1; i-- > 0;) {
                const struct scan scan = {.character = characters[i],
                                          .next = answers[(i + 1) % 2],
                                          .here = answers[i % 2]};

                found = match_sequence(sequence, &scan, i == count, i == count, 0);
        }
        return found != 0;
}
