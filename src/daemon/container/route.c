/* The routes of the container API, with their fields and their errors. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(name)                 \
        {                          \
                name, TYPE_TEXT, 0 \
        }
#define NEEDS_TEXT(name)           \
        {                          \
                name, TYPE_TEXT, 1 \
        }
#define NEEDS_PATH(name)           \
        {                          \
                name, TYPE_PATH, 1 \
        }
#define END                \
        {                  \
                NULL, 0, 0 \
        }

static const struct container_field nothing[] = {END};
static const struct container_field execute[] = {
        TEXT("id"),
        TEXT("sessionId"),
        NEEDS_TEXT("command"),
        {"timeoutMs", TYPE_COUNT, 0},
        {"env", TYPE_ENV, 0},
        TEXT("cwd"),
        END,
};
static const struct container_field process[] = {
        NEEDS_TEXT("command"),
        TEXT("sessionId"),
        {"options", TYPE_OBJECT, 0},
        TEXT("processId"),
        {"timeoutMs", TYPE_COUNT, 0},
        {"env", TYPE_ENV, 0},
        TEXT("cwd"),
        {"autoCleanup", TYPE_FLAG, 0},
        END,
};
static const struct container_field directory[] = {NEEDS_PATH("path"),
                                                   {"recursive", TYPE_FLAG, 0},
                                                   TEXT("sessionId"),
                                                   END};
static const struct container_field file[] = {NEEDS_PATH("path"), TEXT("encoding"), TEXT("sessionId"), END};
static const struct container_field content[] = {NEEDS_PATH("path"), NEEDS_TEXT("content"), TEXT("encoding"),
                                                 TEXT("sessionId"), END};
static const struct container_field renaming[] = {NEEDS_PATH("oldPath"), NEEDS_PATH("newPath"), TEXT("sessionId"), END};
static const struct container_field moving[] = {NEEDS_PATH("sourcePath"), NEEDS_PATH("destinationPath"),
                                                TEXT("sessionId"), END};
static const struct container_field listing[] = {NEEDS_PATH("path"),
                                                 {"options", TYPE_OBJECT, 0},
                                                 TEXT("sessionId"),
                                                 END};
static const struct container_field git[] = {
        NEEDS_TEXT("repoUrl"),
        TEXT("branch"),
        TEXT("targetDir"),
        {"depth", TYPE_COUNT, 0},
        {"timeoutMs", TYPE_COUNT, 0},
        TEXT("sessionId"),
        END,
};
static const struct container_field port[] = {{"port", TYPE_COUNT, 1}, TEXT("name"), END};
static const struct container_field port_watch[] = {
        {"port", TYPE_COUNT, 1},      TEXT("mode"),      TEXT("path"), {"statusMin", TYPE_COUNT, 0},
        {"statusMax", TYPE_COUNT, 0}, TEXT("processId"), END,
};
static const struct container_field session[] = {
        NEEDS_TEXT("id"),
        {"env", TYPE_ENV, 0},
        TEXT("cwd"),
        {"isolation", TYPE_FLAG, 0},
        {"commandTimeoutMs", TYPE_COUNT, 0},
        TEXT("image"),
        END,
};
static const struct container_field session_id[] = {NEEDS_TEXT("sessionId"), END};
static const struct container_field watching[] = {
        NEEDS_TEXT("path"),         {"recursive", TYPE_FLAG, 0},
        {"include", TYPE_TEXTS, 0}, {"exclude", TYPE_TEXTS, 0},
        {"events", TYPE_TEXTS, 0},  TEXT("since"),
        TEXT("sessionId"),          END,
};
static const struct container_field packing[] = {
        NEEDS_TEXT("dir"),           NEEDS_TEXT("archivePath"), {"gitignore", TYPE_FLAG, 0},
        {"excludes", TYPE_TEXTS, 0}, TEXT("sessionId"),         END,
};
static const struct container_field unpacking[] = {NEEDS_TEXT("dir"), NEEDS_TEXT("archivePath"), TEXT("sessionId"),
                                                   END};

static const struct container_field context[] = {
        TEXT("language"),
        TEXT("cwd"),
        {"env_vars", TYPE_ENV, 0},
        {"envVars", TYPE_ENV, 0},
        {"timeout_ms", TYPE_COUNT, 0},
        {"timeoutMs", TYPE_COUNT, 0},
        {"timeout", TYPE_COUNT, 0},
        END,
};
static const struct container_field code[] = {
        NEEDS_TEXT("code"),           TEXT("context_id"),         TEXT("language"),
        {"env_vars", TYPE_ENV, 0},    {"envVars", TYPE_ENV, 0},   {"timeout_ms", TYPE_COUNT, 0},
        {"timeoutMs", TYPE_COUNT, 0}, {"timeout", TYPE_COUNT, 0}, END,
};

static const struct container_exception of_processes[] = {
        {CLOCHE_E_NOT_FOUND, CONTAINER_PROCESS_NOT_FOUND},
        {CLOCHE_E_STATE, CONTAINER_PROCESS_ERROR},
        {CLOCHE_E_FILE_EXISTS, CONTAINER_PROCESS_ERROR},
        {0, 0},
};
static const struct container_exception of_reading[] = {{CLOCHE_E_FILE_KIND, CONTAINER_FILE_NOT_FOUND}, {0, 0}};
static const struct container_exception of_mkdir[] = {
        {CLOCHE_E_FILE_NOT_FOUND, CONTAINER_FILESYSTEM_ERROR},
        {CLOCHE_E_FILE_EXISTS, CONTAINER_FILESYSTEM_ERROR},
        {CLOCHE_E_FILE_KIND, CONTAINER_FILESYSTEM_ERROR},
        {0, 0},
};
static const struct container_exception of_listing[] = {{CLOCHE_E_FILE_KIND, CONTAINER_FILESYSTEM_ERROR}, {0, 0}};
/* A missing repository has its own code, other failures of git share one: as the original image. */
static const struct container_exception of_git[] = {
        {CLOCHE_E_INVALID_ARGUMENT, CONTAINER_INVALID_GIT_URL}, {CLOCHE_E_FILE_EXISTS, CONTAINER_GIT_OPERATION_FAILED},
        {CLOCHE_E_GIT_AUTH, CONTAINER_GIT_OPERATION_FAILED},    {CLOCHE_E_GIT_NETWORK, CONTAINER_GIT_OPERATION_FAILED},
        {CLOCHE_E_TIMEOUT, CONTAINER_GIT_NETWORK_ERROR},        {0, 0},
};
static const struct container_exception of_ports[] = {
        {CLOCHE_E_INVALID_ARGUMENT, CONTAINER_INVALID_PORT},
        {CLOCHE_E_NOT_FOUND, CONTAINER_PORT_NOT_EXPOSED},
        {0, 0},
};
static const struct container_exception of_sessions[] = {{CLOCHE_E_NOT_FOUND, CONTAINER_SESSION_NOT_FOUND}, {0, 0}};
static const struct container_exception of_packing[] = {{CLOCHE_E_BAD_ARCHIVE, CONTAINER_BACKUP_CREATE_FAILED}, {0, 0}};
static const struct container_exception of_unpacking[] = {{CLOCHE_E_FILE_NOT_FOUND, CONTAINER_BACKUP_NOT_FOUND},
                                                          {0, 0}};

#define PATH_MISSING "Path is required and must be a string"
#define COMMAND_MISSING "Command is required and must be a string"
#define PORT_MISSING "Port is required and must be a number"

static const struct container_route routes[] = {
        {"GET", "/", container_greet, NULL, NULL, NULL, NULL},
        {"GET", "/health", container_health, NULL, NULL, NULL, NULL},
        {"GET", "/api/health", container_health, NULL, NULL, NULL, NULL},
        {"GET", "/api/ping", container_ping, NULL, NULL, NULL, NULL},
        {"GET", "/api/version", container_version, NULL, NULL, NULL, NULL},
        {"GET", "/api/commands", container_commands, "Failed to list commands", NULL, NULL, NULL},
        {"POST", "/api/session/create", container_session_create, "Failed to create session", "Session ID is required",
         session, of_sessions},
        {"GET", "/api/session/list", container_session_list, "Failed to list sessions", NULL, NULL, NULL},
        {"POST", "/api/session/delete", container_session_delete, "Failed to delete session", "Session ID is required",
         session_id, of_sessions},
        {"POST", "/api/execute", container_execute, "Command execution failed", "Session ID and command are required",
         execute, of_sessions},
        {"POST", "/api/execute/stream", container_execute_stream, "Stream execution failed",
         "Session ID and command are required", execute, of_sessions},
        {"POST", "/api/process/start", container_process_start, "Failed to start process", COMMAND_MISSING, process,
         of_processes},
        {"GET", "/api/process/list", container_process_list, "Failed to list processes", NULL, NULL, of_processes},
        {"DELETE", "/api/process/kill-all", container_process_kill_all, "Failed to kill processes", NULL, NULL,
         of_processes},
        {"GET", "/api/process/{id}", container_process_get, "Process not found", NULL, NULL, of_processes},
        {"DELETE", "/api/process/{id}", container_process_kill, "Process not found", NULL, NULL, of_processes},
        {"GET", "/api/process/{id}/logs", container_process_logs, "Process not found", NULL, NULL, of_processes},
        {"GET", "/api/process/{id}/stream", container_process_stream, "Process not found", NULL, NULL, of_processes},
        {"POST", "/api/mkdir", container_mkdir, "Failed to create directory", PATH_MISSING, directory, of_mkdir},
        {"POST", "/api/write", container_write, "Failed to write file", PATH_MISSING, content, NULL},
        {"POST", "/api/read", container_read, "Failed to read file", PATH_MISSING, file, of_reading},
        {"POST", "/api/read/stream", container_read_stream, "Failed to stream file", PATH_MISSING, file, of_reading},
        {"POST", "/api/delete", container_delete, "Failed to delete file", PATH_MISSING, file, NULL},
        {"POST", "/api/rename", container_rename, "Failed to rename file",
         "Old path and new path are required and must be strings", renaming, NULL},
        {"POST", "/api/move", container_move, "Failed to move file",
         "Source path and destination path are required and must be strings", moving, NULL},
        {"POST", "/api/list-files", container_list, "Failed to list files", PATH_MISSING, listing, of_listing},
        {"POST", "/api/exists", container_exists, "Failed to look for file", PATH_MISSING, file, NULL},
        {"POST", "/api/git/checkout", container_git, "Failed to checkout repository",
         "Repository URL is required and must be a string", git, of_git},
        {"POST", "/api/expose-port", container_port_expose, "Failed to expose port", PORT_MISSING, port, of_ports},
        {"DELETE", "/api/unexpose-port", container_port_unexpose, "Failed to unexpose port", PORT_MISSING, port,
         of_ports},
        {"GET", "/api/exposed-ports", container_port_list, "Failed to list ports", NULL, NULL, of_ports},
        {"POST", "/api/port-watch", container_port_watch, "Failed to watch port", PORT_MISSING, port_watch,
         of_processes},
        {"POST", "/api/watch", container_watch, "Failed to watch", PATH_MISSING, watching, NULL},
        {"POST", "/api/watch/check", container_watch_check, "Failed to check for changes", PATH_MISSING, watching,
         NULL},
        {"POST", "/api/backup/create", container_backup_create, "Failed to create backup",
         "dir and archivePath are required", packing, of_packing},
        {"POST", "/api/backup/restore", container_backup_restore, "Failed to restore backup",
         "dir and archivePath are required", unpacking, of_unpacking},
        {"POST", "/api/backup/upload-parts", container_backup_upload, NULL, NULL, nothing, NULL},
        {"GET", "/api/contexts", container_context_list, "Failed to list contexts", NULL, NULL, NULL},
        {"POST", "/api/contexts", container_context_create, "Failed to create context", NULL, context, NULL},
        {"DELETE", "/api/contexts/{id}", container_context_delete, "Failed to delete context", NULL, NULL, NULL},
        {"POST", "/api/execute/code", container_execute_code, "Failed to execute code",
         "Code is required and must be a string", code, NULL},
        {"GET", "/api/interpreter/health", container_interpreter_health, "The interpreter is not available", NULL, NULL,
         NULL},
        {"GET", "/rpc", container_rpc, NULL, NULL, NULL, NULL},
        {"POST", "/rpc", container_rpc, NULL, NULL, nothing, NULL},
        {"GET", "/ws", container_socket, NULL, NULL, NULL, NULL},
        {"GET", "/api/ws", container_socket, NULL, NULL, NULL, NULL},
        {"GET", "/ws/pty", container_terminal, NULL, NULL, NULL, NULL},
        {"*", "/proxy/{rest}", container_proxy, NULL, NULL, NULL, of_ports},
};
#define ROUTES (sizeof(routes) / sizeof(routes[0]))

/* -- lookup ---------------------------------------------------------------------------------------------------- */

static void allow(char *allowed, size_t size, const char *verb)
{
        size_t used = strlen(allowed);

        snprintf(allowed + used, size - used, "%s%s", used > 0 ? ", " : "", verb);
}

const struct container_route *container_route_find(const char *verb, const char *path, char **ret_part, char *allowed,
                                                   size_t allowed_size)
{
        allowed[0] = '\0';
        for (size_t i = 0; i < ROUTES; i++) {
                struct door_part parts[DOOR_PARTS], *part = &parts[0];

                /* Fixed names come before {id}: /api/process/list is not a process. */
                if (!door_matches(routes[i].path, path, parts))
                        continue;
                if (strcmp(routes[i].verb, "*") != 0 && strcmp(routes[i].verb, verb) != 0) {
                        allow(allowed, allowed_size, routes[i].verb);
                        continue;
                }
                *ret_part = !part->at                          ? NULL
                            : strcmp(routes[i].verb, "*") == 0 ? strdup(part->at)
                                                               : container_decode(part->at, part->size);
                return &routes[i];
        }
        return NULL;
}
