/* The paths of the API. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "daemon/e2b/template/build.h"

#include <stdlib.h>
#include <string.h>

#define PROCESS "/process.Process/"
#define FILESYSTEM "/filesystem.Filesystem/"

static void on_old_build(struct e2b_request *q)
{
        e2b_refuse(q, 501, "unimplemented",
                   "builds of version 1 are not supported: use Template.build, or 'e2b template create'");
}

static const struct e2b_route control[] = {
        {"GET", "/health", E2B_CONTROL, e2b_on_healthy},
        {"GET", "/teams", E2B_CONTROL, e2b_on_teams},
        {"POST", "/sandboxes", E2B_CONTROL, e2b_on_create},
        {"POST", "/v2/sandboxes", E2B_CONTROL, e2b_on_create},
        {"GET", "/sandboxes", E2B_CONTROL, e2b_on_list},
        {"GET", "/v2/sandboxes", E2B_CONTROL, e2b_on_list},
        {"GET", "/sandboxes/metrics", E2B_CONTROL, e2b_on_metrics_of_several},
        {"GET", "/sandboxes/{id}", E2B_CONTROL, e2b_on_get},
        {"DELETE", "/sandboxes/{id}", E2B_CONTROL, e2b_on_kill},
        {"POST", "/sandboxes/{id}/timeout", E2B_CONTROL, e2b_on_timeout},
        {"POST", "/sandboxes/{id}/refreshes", E2B_CONTROL, e2b_on_refresh},
        {"POST", "/sandboxes/{id}/connect", E2B_CONTROL, e2b_on_connect},
        {"POST", "/v2/sandboxes/{id}/connect", E2B_CONTROL, e2b_on_connect},
        {"POST", "/sandboxes/{id}/resume", E2B_CONTROL, e2b_on_resume},
        {"POST", "/sandboxes/{id}/pause", E2B_CONTROL, e2b_on_pause},
        {"PUT", "/sandboxes/{id}/network", E2B_CONTROL, e2b_on_network},
        {"POST", "/sandboxes/{id}/fork", E2B_CONTROL, e2b_on_fork},
        {"POST", "/sandboxes/{id}/snapshots", E2B_CONTROL, e2b_on_snapshot},
        {"GET", "/sandboxes/{id}/metrics", E2B_CONTROL, e2b_on_metrics},
        {"GET", "/sandboxes/{id}/logs", E2B_CONTROL, e2b_on_logs},
        {"GET", "/v2/sandboxes/{id}/logs", E2B_CONTROL, e2b_on_logs},
        {"GET", "/snapshots", E2B_CONTROL, e2b_on_snapshots},
        {"POST", "/volumes", E2B_CONTROL, e2b_on_volume_create},
        {"GET", "/volumes", E2B_CONTROL, e2b_on_volume_list},
        {"GET", "/volumes/{id}", E2B_CONTROL, e2b_on_volume_get},
        {"DELETE", "/volumes/{id}", E2B_CONTROL, e2b_on_volume_delete},
        {"GET", E2B_VOLUME_PATH "path", E2B_FILES, e2b_on_content_get},
        {"PATCH", E2B_VOLUME_PATH "path", E2B_FILES, e2b_on_content_change},
        {"DELETE", E2B_VOLUME_PATH "path", E2B_FILES, e2b_on_content_remove},
        {"GET", E2B_VOLUME_PATH "dir", E2B_FILES, e2b_on_content_list},
        {"POST", E2B_VOLUME_PATH "dir", E2B_FILES, e2b_on_content_make},
        {"GET", E2B_VOLUME_PATH "file", E2B_FILES, e2b_on_download},
        {"PUT", E2B_VOLUME_PATH "file", E2B_FILES, e2b_on_upload},
        {"POST", "/v3/templates", E2B_CONTROL, e2b_on_template_create},
        {"GET", "/templates", E2B_CONTROL, e2b_on_template_list},
        {"GET", "/v2/templates", E2B_CONTROL, e2b_on_template_list},
        {"GET", "/templates/aliases/{id}", E2B_CONTROL, e2b_on_template_alias},
        {"POST", "/secrets", E2B_CONTROL, e2b_on_secret_create},
        {"GET", "/secrets", E2B_CONTROL, e2b_on_secret_list},
        {"GET", "/secrets/{id}", E2B_CONTROL, e2b_on_secret_get},
        {"POST", "/secrets/{id}", E2B_CONTROL, e2b_on_secret_update},
        {"DELETE", "/secrets/{id}", E2B_CONTROL, e2b_on_secret_delete},
        {"POST", "/templates", E2B_CONTROL, on_old_build},
        {"POST", "/v2/templates", E2B_CONTROL, on_old_build},
        {"POST", "/templates/{id}/builds/{id}", E2B_CONTROL, on_old_build},
        {"POST", "/templates/tags", E2B_CONTROL, e2b_on_tags_assign},
        {"DELETE", "/templates/tags", E2B_CONTROL, e2b_on_tags_remove}, /* before that of a template */
        {"POST", "/templates/{id}", E2B_CONTROL, on_old_build},         /* behind that of tags */
        {"GET", "/templates/{id}/tags", E2B_CONTROL, e2b_on_tags},
        {"GET", "/templates/{id}", E2B_CONTROL, e2b_on_template_get},
        {"DELETE", "/templates/{id}", E2B_CONTROL, e2b_on_template_delete},
        {"PATCH", "/v2/templates/{id}", E2B_CONTROL, e2b_on_template_update},
        {"GET", E2B_LAYER_PATH, E2B_CONTROL, e2b_on_layer_get},
        {"PUT", E2B_LAYER_PATH, E2B_FILES, e2b_on_layer_put},
        {"POST", "/v2/templates/{id}/builds/{id}", E2B_CONTROL, e2b_on_build_start},
        {"GET", "/templates/{id}/builds/{id}/status", E2B_CONTROL, e2b_on_build_status},
        {0},
};

static const struct e2b_route envd[] = {
        {"GET", "/health", E2B_FILES, e2b_on_health},
        {"GET", "/envs", E2B_FILES, e2b_on_envs},
        {"GET", "/metrics", E2B_FILES, e2b_on_metrics_of_envd},
        {"POST", "/files/compose", E2B_FILES, e2b_on_compose},
        {"GET", "/files", E2B_FILES, e2b_on_download},
        {"POST", "/files", E2B_FILES, e2b_on_upload},
        {"POST", PROCESS "Start", E2B_STREAM, e2b_on_start},
        {"POST", PROCESS "Connect", E2B_STREAM, e2b_on_attach},
        {"POST", PROCESS "List", E2B_UNARY, e2b_on_processes},
        {"POST", PROCESS "SendInput", E2B_UNARY, e2b_on_input},
        {"POST", PROCESS "CloseStdin", E2B_UNARY, e2b_on_close_input},
        {"POST", PROCESS "SendSignal", E2B_UNARY, e2b_on_signal},
        {"POST", PROCESS "Update", E2B_UNARY, e2b_on_update},
        {"POST", FILESYSTEM "Stat", E2B_UNARY, e2b_on_stat},
        {"POST", FILESYSTEM "ListDir", E2B_UNARY, e2b_on_list_dir},
        {"POST", FILESYSTEM "MakeDir", E2B_UNARY, e2b_on_make_dir},
        {"POST", FILESYSTEM "Move", E2B_UNARY, e2b_on_move},
        {"POST", FILESYSTEM "Remove", E2B_UNARY, e2b_on_remove},
        {"POST", FILESYSTEM "CreateWatcher", E2B_UNARY, e2b_on_watcher_create},
        {"POST", FILESYSTEM "GetWatcherEvents", E2B_UNARY, e2b_on_watcher_events},
        {"POST", FILESYSTEM "RemoveWatcher", E2B_UNARY, e2b_on_watcher_remove},
        {"POST", FILESYSTEM "WatchDir", E2B_STREAM, e2b_on_watch},
        {0},
};

static const struct e2b_route interpreter[] = {
        {"GET", "/health", E2B_CONTEXTS, e2b_on_health},
        {"POST", "/execute", E2B_CODE, e2b_on_execute},
        {"POST", "/contexts", E2B_CONTEXTS, e2b_on_context_create},
        {"GET", "/contexts", E2B_CONTEXTS, e2b_on_context_list},
        {"DELETE", "/contexts/{id}", E2B_CONTEXTS, e2b_on_context_delete},
        {"POST", "/contexts/{id}/restart", E2B_CONTEXTS, e2b_on_context_restart},
        {0},
};

const struct e2b_route *e2b_route_find(const char *verb, const char *path, unsigned port, char *ret_parts[DOOR_PARTS])
{
        const struct e2b_route *routes = port == E2B_ENVD_PORT ? envd : port == E2B_CODE_PORT ? interpreter : control;
        struct door_part parts[DOOR_PARTS];

        for (; routes->verb; routes++)
                if (strcmp(routes->verb, verb) == 0 && door_matches(routes->path, path, parts)) {
                        for (size_t i = 0; i < DOOR_PARTS; i++)
                                ret_parts[i] = parts[i].at ? strndup(parts[i].at, parts[i].size) : NULL;
                        return routes;
                }
        return NULL;
}
