/* The keeper's door: what it refuses before it acts. */
#include "keeper/request.h"
#include "tap.h"

#include <string.h>

static struct keeper_request make_request(void)
{
        static struct keeper_request request;

        memset(&request, 0, sizeof(request));
        request.op = KEEPER_BOX_MAKE;
        request.spec.parent = KEEPER_NO_BOX;
        memset(&request.spec.limits, 0xff, sizeof(request.spec.limits));
        return request;
}

static int check(const struct keeper_request *request, struct cloche_err *e)
{
        return request_check(request, sizeof(*request), e);
}

static void test_sizes(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        CHECK(check(&request, &e) == 0, "a request without limits is taken: %s", e.msg);
        CHECK(request_check(&request, sizeof(request) - 1, &e) == -CLOCHE_E_PROTOCOL, "a short packet is refused: %s", e.msg);
        CHECK(request_check(&request, 0, &e) == -CLOCHE_E_PROTOCOL, "an empty packet is refused");
        request.op = KEEPER_OP_COUNT;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unknown request is refused: %s", e.msg);
        request.op = UINT32_MAX;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "and a far one");
        request.op = KEEPER_BOX_DROP;
        CHECK(request_check(&request, KEEPER_REQUEST_HEAD, &e) == 0, "another request than for a box is its head: %s", e.msg);
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "and nothing more: %s", e.msg);
}

static void test_parents(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.spec.parent = 7;
        CHECK(check(&request, &e) == 0, "a box beneath a template is asked for: %s", e.msg);
        strcpy(request.spec.image, "/image");
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "but not with an image: %s", e.msg);
        request.spec.is_template = 2;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a flag is 0 or 1: %s", e.msg);
}

static void test_paths(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        strcpy(request.spec.image, "relative/image");
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "a relative image is refused: %s", e.msg);
        request = make_request();
        memset(request.spec.runtime_dir, '/', sizeof(request.spec.runtime_dir));
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unterminated path is refused: %s", e.msg);
}

static void test_limits(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.spec.limits.memory_bytes = 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "too little memory is refused: %s", e.msg);
        CHECK(strstr(e.msg, "memory_bytes") != NULL, "and named");
        request = make_request();
        request.spec.limits.pids = UINT64_MAX - 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "too many tasks are refused: %s", e.msg);
        request = make_request();
        request.spec.limits.open_files = 1024;
        CHECK(check(&request, &e) == 0, "a limit in range is taken");
}

int main(void)
{
        test_sizes();
        test_parents();
        test_paths();
        test_limits();
        return tap_done();
}
