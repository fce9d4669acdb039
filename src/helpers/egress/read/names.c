/* The table of names and their addresses in a box.
 * Runs in: cloche-egress, on bytes of the guest; pure. */
#include "names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 12 /* of an address: 5 bits of generation, 12 of slot */
#define GENERATIONS 32u

_Static_assert(1u << SLOT_BITS == NAMES_MAX && GENERATIONS * NAMES_MAX == 1u << (32 - NAMES_POOL_BITS),
               "the pool is as large as what is made of it");

void names_init(struct egress_names *names, uint32_t seed)
{
        memset(names, 0, sizeof(*names));
        names->count = 1;
        names->seed = seed;
}

void egress_names_done(struct egress_names *names)
{
        for (uint32_t i = 0; i < names->count; i++)
                free(names->rows[i].name);
}

/* FNV-1a. */
static uint32_t hash(const struct egress_names *names, const char *name)
{
        uint32_t h = names->seed ^ 2166136261u;

        for (; *name; name++)
                h = (h ^ (unsigned char)*name) * 16777619u;
        return (h ^ h >> SLOT_BITS) % NAMES_MAX;
}

static uint32_t address_of(const struct egress_names *names, uint32_t index)
{
        return NAMES_POOL | names->rows[index].generation << SLOT_BITS | index;
}

static uint32_t find(const struct egress_names *names, const char *name)
{
        uint32_t index = names->heads[hash(names, name)];

        while (index && strcmp(names->rows[index].name, name) != 0)
                index = names->rows[index].next;
        return index;
}

static void unlink_row(struct egress_names *names, uint32_t index)
{
        uint32_t *link = &names->heads[hash(names, names->rows[index].name)];

        while (*link != index)
                link = &names->rows[*link].next;
        *link = names->rows[index].next;
}

/* The row to evict, or 0. */
static uint32_t find_oldest(const struct egress_names *names, uint64_t now_ns)
{
        uint32_t oldest = 0;

        for (uint32_t i = 1; i < names->count; i++) {
                const struct name_row *row = &names->rows[i];

                if (row->connections == 0 && now_ns - row->requested_ns >= NAMES_REST_NS &&
                    (!oldest || row->requested_ns < names->rows[oldest].requested_ns))
                        oldest = i;
        }
        return oldest;
}

static uint32_t take_row(struct egress_names *names, uint64_t now_ns)
{
        uint32_t index;

        if (names->count < NAMES_MAX)
                return names->count++;
        index = find_oldest(names, now_ns);
        if (index) {
                unlink_row(names, index);
                free(names->rows[index].name);
                names->rows[index].generation = (names->rows[index].generation + 1) % GENERATIONS;
        }
        return index;
}

int names_address(struct egress_names *names, const char *name, uint64_t now_ns, uint32_t *ret)
{
        uint32_t index = find(names, name), *head;
        char *copy;

        if (!index) {
                copy = strdup(name);
                index = copy ? take_row(names, now_ns) : 0;
                if (!copy)
                        return -ENOMEM;
                if (!index) {
                        free(copy);
                        return -ENOSPC;
                }
                head = &names->heads[hash(names, name)];
                names->rows[index].name = copy;
                names->rows[index].next = *head;
                *head = index;
        }
        names->rows[index].requested_ns = now_ns;
        *ret = address_of(names, index);
        return 0;
}

const char *names_find(const struct egress_names *names, uint32_t address)
{
        uint32_t index = address % NAMES_MAX;

        return names_is_pool(address) && names->rows[index].name && address_of(names, index) == address
                       ? names->rows[index].name
                       : NULL;
}

void names_hold(struct egress_names *names, uint32_t address)
{
        names->rows[address % NAMES_MAX].connections++;
}

void names_release(struct egress_names *names, uint32_t address)
{
        names->rows[address % NAMES_MAX].connections--;
}
