/* Memory of a template on huge pages: the interpreter's new allocations, its code, and its whole
 * memory when it freezes. Runs in: a template. */
#include "guest.h"

#include "base/fd.h"

#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE_PAGE (2ul << 20)

#define PAGE 4096ul
#define REGION_SIZE (32ul << 20)
#define FREE_ARENAS_MAX 64

static struct {
        char *at, *end;
        struct arena {
                void *start;
                size_t size; /* CPython requests arenas of one size, and pieces of its stack of others */
        } free[FREE_ARENAS_MAX];
        size_t free_count;
} arenas;

static int open_region(void)
{
        char *whole = mmap(NULL, REGION_SIZE + HUGE_PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        char *start;

        if (whole == MAP_FAILED)
                return -errno;
        start = (char *)(((uintptr_t)whole + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
        if (start > whole)
                munmap(whole, (size_t)(start - whole));
        if (start < whole + HUGE_PAGE)
                munmap(start + REGION_SIZE, (size_t)(whole + HUGE_PAGE - start));
        madvise(start, REGION_SIZE, MADV_HUGEPAGE); /* a kernel without huge pages uses small ones */
        arenas.at = start;
        arenas.end = start + REGION_SIZE;
        return 0;
}

void *cloche_guest_arena_alloc(void *unused, size_t size)
{
        void *arena;

        (void)unused;
        for (size_t i = 0; i < arenas.free_count; i++)
                if (arenas.free[i].size == size) {
                        arena = arenas.free[i].start;
                        arenas.free[i] = arenas.free[--arenas.free_count];
                        return arena;
                }
        size = (size + PAGE - 1) & ~(PAGE - 1);
        if (size > REGION_SIZE || ((size_t)(arenas.end - arenas.at) < size && open_region() < 0))
                return NULL;
        arena = arenas.at;
        arenas.at += size;
        return arena;
}

void cloche_guest_arena_free(void *unused, void *arena, size_t size)
{
        (void)unused;
        madvise(arena, size, MADV_DONTNEED); /* zero again, and no longer charged to us */
        if (arenas.free_count < FREE_ARENAS_MAX)
                arenas.free[arenas.free_count++] = (struct arena){arena, size};
}

/* pagemap in proc(5): bit 56, mapped by no other process. Pages that a prefix shares with its base
 * stay shared: moving them would cost each prefix a copy of the base (10 MB for Python). */
static int is_mostly_own(int pagemap_fd, unsigned long start)
{
        uint64_t entries[HUGE_PAGE / 4096];
        unsigned own = 0;

        if (pread(pagemap_fd, entries, sizeof(entries), (off_t)(start / 4096 * sizeof(entries[0]))) != sizeof(entries))
                return 0;
        for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
                own += entries[i] >> 56 & 1;
        return own >= sizeof(entries) / sizeof(entries[0]) / 4;
}

static long collapse_range(int pagemap_fd, int shared_too, unsigned long from, unsigned long to)
{
        long moved = 0;

        from = (from + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
        to &= ~(HUGE_PAGE - 1);
        for (; from < to; from += HUGE_PAGE)
                if ((shared_too || is_mostly_own(pagemap_fd, from)) &&
                    syscall(SYS_madvise, from, HUGE_PAGE, MADV_COLLAPSE) == 0)
                        moved += (long)HUGE_PAGE;
        return moved;
}

/* proc_pid_maps(5): anonymous, writable, private. */
long cloche_guest_collapse(int shared_too)
{
        _cleanup_fd_ int pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[512];
        long moved = 0;

        if (!maps)
                return -errno;
        while (fgets(line, sizeof(line), maps)) {
                unsigned long from, to, inode;
                char rights[8];

                if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &from, &to, rights, &inode) == 4 && inode == 0 &&
                    strncmp(rights, "rw", 2) == 0 && rights[3] == 'p' && !strstr(line, "[stack]"))
                        moved += collapse_range(pagemap_fd, shared_too, from, to);
        }
        fclose(maps);
        return moved;
}

/* -- code ------------------------------------------------------------------------------------------------------- */

#define SEGMENTS_MAX 8

struct code {
        struct segment {
                char *from, *to; /* whole huge pages */
        } segments[SEGMENTS_MAX];
        size_t count;
};

static int find_code(struct dl_phdr_info *info, size_t size, void *data)
{
        struct code *code = data;

        (void)size;
        for (size_t i = 0; i < info->dlpi_phnum && code->count < SEGMENTS_MAX; i++) {
                const ElfW(Phdr) *header = &info->dlpi_phdr[i];
                uintptr_t start = info->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
                struct segment found = {(char *)((start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)),
                                        (char *)(end & ~(HUGE_PAGE - 1))};

                if (header->p_type == PT_LOAD && (header->p_flags & (PF_R | PF_W | PF_X)) == (PF_R | PF_X) &&
                    found.from < found.to)
                        code->segments[code->count++] = found;
        }
        return 0;
}

static char *allocate_aligned(size_t size)
{
        char *whole = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *start;

        if (whole == MAP_FAILED)
                return NULL;
        start = (char *)(((uintptr_t)whole + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
        if (start > whole)
                munmap(whole, (size_t)(start - whole));
        munmap(start + size, (size_t)(whole + HUGE_PAGE - start));
        return start;
}

/* Returns 0 if the copy lies on huge pages. On small ones a fork would be more expensive than with
 * the file's pages. */
static int copy_segment(const struct segment *segment, char *copy, size_t size)
{
        madvise(copy, size, MADV_HUGEPAGE);
        memcpy(copy, segment->from, size);
        for (size_t at = 0; at < size; at += HUGE_PAGE)
                if (syscall(SYS_madvise, copy + at, HUGE_PAGE, MADV_COLLAPSE) < 0)
                        return -errno;
        return mprotect(copy, size, PROT_READ | PROT_EXEC) < 0 ? -errno : 0;
}

long cloche_guest_copy_code(void)
{
        struct code code = {0};
        long moved = 0;

        dl_iterate_phdr(find_code, &code);
        for (size_t i = 0; i < code.count; i++) {
                const struct segment *segment = &code.segments[i];
                size_t size = (size_t)(segment->to - segment->from);
                char *copy = allocate_aligned(size);

                if (!copy)
                        continue;
                /* mremap(2) replaces the file's pages in one step, because other threads run in
                 * them. */
                if (copy_segment(segment, copy, size) == 0 &&
                    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, segment->from) != MAP_FAILED)
                        moved += (long)size;
                else
                        munmap(copy, size);
        }
        return moved;
}
