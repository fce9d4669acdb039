/* A policy, a line of JSON, and hosts to check, a line each. */
#include "helpers/egress/read/address.h"
#include "helpers/egress/read/policy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const struct policy *policy, const char *line)
{
        char name[HOST_NAME_MAX_BYTES + 1];
        uint32_t address;

        if (address_parse(line, strlen(line), &address) == 0) {
                if (host_name(line, strlen(line), name) == 0)
                        abort();
                if (policy_address(policy, address, 80, 1).allowed && !policy_leads(policy, address, 80, 0).allowed)
                        abort();
        } else if (host_name(line, strlen(line), name) == 0 && policy_name(policy, name, 443).allowed &&
                   !policy_resolves(policy, name).allowed &&
                   strcmp(policy_resolves(policy, name).why, "names are not answered") != 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = calloc(1, size + 1), *rest = text, *line;
        struct policy *policy = NULL;
        struct cloche_err e;
        json_t *json;

        if (!text)
                return 0;
        memcpy(text, data, size);
        line = strsep(&rest, "\n");
        json = json_loads(line, JSON_ALLOW_NUL, NULL);
        if (json && policy_load(json, &policy, &e) == 0) {
                while ((line = strsep(&rest, "\n")))
                        check_host(policy, line);
                policy_free(policy);
        }
        json_decref(json);
        free(text);
        return 0;
}
