/* The least pace of an upload: src/daemon/images/pace.h. */
#include "tap.h"

#include "daemon/images/pace.h"

#define SECOND_NS UINT64_C(1000000000)

/* Returns the second in which an upload of so many bytes each so many seconds is too slow; 0: never within a day. */
static uint64_t slow_after(uint64_t bytes, uint64_t every_s)
{
        struct pace pace = {.since_ns = 5 * SECOND_NS};

        for (uint64_t s = 1; s <= 86400; s++) {
                if (s % every_s == 0)
                        pace_add(&pace, bytes, (5 + s) * SECOND_NS);
                if (pace_is_slow(&pace, (5 + s) * SECOND_NS))
                        return s;
        }
        return 0;
}

static void test_a_trickle_ends(void)
{
        CHECK(slow_after(1, 119) == 120, "a byte now and then");
        CHECK(slow_after(500, 1) == 120, "a steady one below the least");
        CHECK(slow_after(0, 1) == 120, "nothing");
}

static void test_a_slow_line_goes_on(void)
{
        CHECK(slow_after(600, 1) == 0, "600 bytes a second");
        CHECK(slow_after(PACE_BYTES, 119) == 0, "a piece each 119 seconds");
}

static void test_a_reader_that_is_slow_does_not_count(void)
{
        struct pace pace = {.since_ns = 0};

        pace_renew(&pace, PACE_NS - 1);
        CHECK(!pace_is_slow(&pace, 2 * PACE_NS - 2), "renewed");
        CHECK(pace_is_slow(&pace, 2 * PACE_NS - 1), "and once more not");
}

int main(void)
{
        test_a_trickle_ends();
        test_a_slow_line_goes_on();
        test_a_reader_that_is_slow_does_not_count();
        return tap_done();
}
