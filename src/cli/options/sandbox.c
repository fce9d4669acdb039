/* The options of the commands for sandboxes. Runs in: the CLI, as its user. */
#include "options.h"
#include "quantity.h"

#include "engine/box/network-names.h"

#include <stdlib.h>
#include <string.h>

static int add_text(json_t **list, const char *option, const char *v)
{
        json_t *text = json_string(v);

        if (!text)
                return cli_bad("%s: expected text in UTF-8", option);
        if (!*list)
                *list = json_array();
        return json_array_append_new(*list, text) < 0 ? cli_bad("out of memory") : 0;
}

int options_set_allow(struct cli_request *r, const char *v)
{
        return add_text(&r->sandbox.allow, "--allow", v);
}

int options_set_add(struct cli_request *r, const char *v)
{
        return add_text(&r->sandbox.add, "--add", v);
}

int options_set_add_deny(struct cli_request *r, const char *v)
{
        return add_text(&r->sandbox.add_deny, "--add-deny", v);
}

int options_set_deny(struct cli_request *r, const char *v)
{
        return add_text(&r->sandbox.deny, "--deny", v);
}

int options_set_host_port(struct cli_request *r, const char *v)
{
        if (!r->sandbox.host_ports)
                r->sandbox.host_ports = json_object();
        return network_names_add_service(r->sandbox.host_ports, v) < 0
                       ? cli_bad("--host-port: '%s' is not " NETWORK_SERVICE_EXPECTED ", once for each name", v)
                       : 0;
}

/* RULE,RULE,…; a leading '!' denies. */
int options_set_network(struct cli_request *r, const char *v)
{
        int bad = *v ? 0 : cli_bad("--network: expected HOST, HOST:PORT or HOST:FIRST-LAST, separated by commas");

        while (bad == 0 && *v) {
                size_t size = strcspn(v, ",");
                int is_denied = *v == '!';
                char *rule = strndup(v + is_denied, size - (size_t)is_denied);

                bad = !rule ? cli_bad("out of memory")
                            : add_text(is_denied ? &r->sandbox.deny : &r->sandbox.allow, "--network", rule);
                free(rule);
                v += size;
                v += *v == ',';
        }
        return bad;
}

/* KIND:PACKAGE,PACKAGE,…; the daemon knows the kinds. */
int options_set_packages(struct cli_request *r, const char *v)
{
        const char *colon = strchr(v, ':');
        json_t *list;
        int bad = colon && colon != v && colon[1]
                          ? 0
                          : cli_bad("--packages: '%s' is not KIND:PACKAGE, with KIND pip, npm, gem or apt", v);

        if (bad)
                return bad;
        if (!r->sandbox.packages)
                r->sandbox.packages = json_object();
        list = json_incref(json_object_getn(r->sandbox.packages, v, (size_t)(colon - v)));
        for (const char *at = colon + 1; bad == 0 && *at;) {
                size_t size = strcspn(at, ",");
                char *package = strndup(at, size);

                bad = package ? add_text(&list, "--packages", package) : cli_bad("out of memory");
                free(package);
                at += size + (at[size] == ',');
        }
        if (bad == 0 && json_object_setn(r->sandbox.packages, v, (size_t)(colon - v), list) < 0)
                bad = cli_bad("--packages: '%s' is not text in UTF-8", v);
        json_decref(list);
        return bad;
}

/* NAME:/PATH, NAME:/PATH:ro */
int options_set_volume(struct cli_request *r, const char *v)
{
        const char *colon = strchr(v, ':'), *end = strrchr(v, ':');
        int is_read_only = colon && end > colon && strcmp(end, ":ro") == 0;
        json_t *row;

        if (!colon || colon == v || colon[1] != '/' || (end > colon && !is_read_only))
                return cli_bad("--volume: '%s' is not NAME:/PATH or NAME:/PATH:ro (cloche volume ls lists the names)",
                               v);
        if (!is_read_only)
                end = v + strlen(v);
        row = json_pack("{s:s%, s:s%, s:b}", "name", v, (size_t)(colon - v), "path", colon + 1,
                        (size_t)(end - colon - 1), "readOnly", is_read_only);
        if (!row)
                return cli_bad("--volume: '%s' is not text in UTF-8", v);
        if (!r->sandbox.volumes)
                r->sandbox.volumes = json_array();
        json_array_append_new(r->sandbox.volumes, row);
        return 0;
}

int options_set_size(struct cli_request *r, const char *v)
{
        double bytes;

        if (quantity_bytes(v, 1, &bytes) < 0 || bytes < 1 || bytes > 1e16)
                return cli_bad("--size: '%s' is not a size, such as 512M or 10G", v);
        r->sandbox.size_bytes = (uint64_t)bytes;
        return 0;
}

static const struct {
        const char *name, *field; /* of sandbox.list */
        int is_list;
} filters[] = {
        {"state", "state", 0},
        {"label", "labels", 1},
        {"image", "image", 0},
        {"name", "prefix", 0},
        {"created-after", "createdAfter", 0},
        {"created-before", "createdBefore", 0},
};

int options_set_filter(struct cli_request *r, const char *v)
{
        const char *equals = strchr(v, '=');
        size_t i = 0;
        json_t *list;

        while (i < sizeof(filters) / sizeof(filters[0]) &&
               (!equals || strlen(filters[i].name) != (size_t)(equals - v) ||
                strncmp(filters[i].name, v, (size_t)(equals - v)) != 0))
                i++;
        if (i == sizeof(filters) / sizeof(filters[0]))
                return cli_bad("--filter: '%s' is none of state=, label=, image=, name=, created-after=, "
                               "created-before=",
                               v);
        if (!r->sandbox.filters)
                r->sandbox.filters = json_object();
        if (!filters[i].is_list && json_object_get(r->sandbox.filters, filters[i].field))
                return cli_bad("--filter %s= is given twice", filters[i].name);
        list = json_object_get(r->sandbox.filters, filters[i].field);
        if (filters[i].is_list && !list)
                json_object_set_new(r->sandbox.filters, filters[i].field, list = json_array());
        if ((filters[i].is_list
                     ? json_array_append_new(list, json_string(equals + 1))
                     : json_object_set_new(r->sandbox.filters, filters[i].field, json_string(equals + 1))) < 0)
                return cli_bad("--filter: '%s' is not text in UTF-8", v);
        return 0;
}

int options_set_label(struct cli_request *r, const char *v)
{
        const char *equals = strchr(v, '=');

        if (!equals || equals == v)
                return cli_bad("--label: '%s' is not NAME=VALUE", v);
        if (!r->sandbox.labels)
                r->sandbox.labels = json_object();
        if (json_object_setn_new(r->sandbox.labels, v, (size_t)(equals - v), json_string(equals + 1)) < 0)
                return cli_bad("--label: '%s' is not text in UTF-8", v);
        return 0;
}

/* "-" is a positional word, like the path it replaces. */
int options_set_standard(struct cli_request *r, const char *v)
{
        (void)v;
        r->positional[r->positional_count++] = "-";
        return 0;
}

/* NAME=VALUE, or NAME with the value from here. */
int options_set_build_arg(struct cli_request *r, const char *v)
{
        const char *equals = strchr(v, '='), *value = equals ? equals + 1 : getenv(v);

        if (equals == v || !*v || !value)
                return cli_bad("--build-arg: '%s' is not NAME=VALUE, or is not set here", v);
        if (!r->build.args)
                r->build.args = json_object();
        if (json_object_setn_new(r->build.args, v, equals ? (size_t)(equals - v) : strlen(v), json_string(value)) < 0)
                return cli_bad("--build-arg: '%s' is not text in UTF-8", v);
        return 0;
}

/* id=ID,src=FILE, in any order. The ID becomes the name of a file. */
int options_set_secret(struct cli_request *r, const char *v)
{
        static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
        const char *source = strncmp(v, "src=", 4) == 0 ? v + 4
                             : strstr(v, ",src=")       ? strstr(v, ",src=") + 5
                                                        : "",
                   *id = strncmp(v, "id=", 3) == 0 ? v + 3
                         : strstr(v, ",id=")       ? strstr(v, ",id=") + 4
                                                   : "";
        size_t size = strcspn(id, ","), source_size = strcspn(source, ",");

        if (size == 0 || source_size == 0 || *id == '.' || strspn(id, characters) != size || size > 100)
                return cli_bad("--secret: '%s' is not id=ID,src=FILE", v);
        if (!r->build.secrets)
                r->build.secrets = json_object();
        if (json_object_setn_new(r->build.secrets, id, size, json_stringn(source, source_size)) < 0)
                return cli_bad("--secret: '%s' is not text in UTF-8", v);
        return 0;
}
