#include "openapi.h"
#include "operation.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
        const char *name;
        unsigned http;
        const char *text;
} errors[] = {
#define CLOCHE_ERROR(symbol, name, fault, http, text) {name, http, text},
#include <cloche/errors.def>
#undef CLOCHE_ERROR
};
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

/* -- requests ------------------------------------------------------------------------------------------------- */

static json_t *described(const struct operation_field *field)
{
        json_t *schema = field_schema(field->type);

        json_object_set_new(schema, "description", json_string(field->doc));
        return schema;
}

static json_t *body_schema(const struct operation *operation)
{
        json_t *properties = json_object(), *required = json_array(), *schema;
        struct operation_field field;

        for (size_t at = 0; operation_next_field(operation, &at, &field);) {
                if (operation_is_in_path(operation, field.name))
                        continue;
                json_object_set_new(properties, field.name, described(&field));
                if (field.is_required)
                        json_array_append_new(required, json_string(field.name));
        }
        schema = json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties, "additionalProperties", 0);
        if (json_array_size(required) > 0)
                json_object_set(schema, "required", required);
        json_decref(required);
        return schema;
}

/* True for a WebSocket: its parameters arrive in a message. */
static int is_by_message(const struct operation *operation)
{
        return operation->symbol == OPERATION_EXEC_SOCKET || operation->symbol == OPERATION_FOLLOW_SOCKET;
}

static json_t *parameters(const struct operation *operation)
{
        json_t *list = json_array();
        struct operation_field field;

        for (size_t at = 0; operation_next_field(operation, &at, &field);) {
                int is_in_path = operation_is_in_path(operation, field.name);

                if (!is_in_path && (operation_has_json(operation) || is_by_message(operation)))
                        continue;
                json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", field.name, "in",
                                                      is_in_path ? "path" : "query", "required", field.is_required,
                                                      "description", field.doc, "schema", field_schema(field.type)));
        }
        return list;
}

static json_t *request_body(const struct operation *operation)
{
        if (operation_has_json(operation))
                return json_pack("{s:b, s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema",
                                 body_schema(operation));
        if (strcmp(operation->verb, "PUT") == 0)
                return json_pack("{s:b, s:{s:{}}}", "required", 1, "content", "application/octet-stream");
        return NULL;
}

/* -- answers -------------------------------------------------------------------------------------------------- */

static const char *type_of(const struct operation *operation)
{
        if (operation->symbol == OPERATION_METRICS)
                return "text/plain";
        return operation->symbol == OPERATION_RAW_GET || operation->symbol == OPERATION_TREE_GET
                       ? "application/octet-stream"
                       : "application/json";
}

static int may_stream(const struct operation *operation)
{
        return operation->is_stream || operation->symbol == OPERATION_CALL || operation->symbol == OPERATION_SCRIPT ||
               operation->symbol == OPERATION_EVALUATE;
}

static json_t *answers(const struct operation *operation)
{
        const char *type = type_of(operation);
        char status[8];
        json_t *all, *content = json_pack("{s:{s:{s:s}}}", type, "schema", "type",
                                          strcmp(type, "application/json") == 0 ? "object" : "string");

        if (may_stream(operation))
                json_object_set_new(content, "text/event-stream", json_pack("{s:{s:s}}", "schema", "type", "string"));
        snprintf(status, sizeof(status), "%u", operation->success);
        all = json_pack("{s:{s:s}, s:{s:s}}", status, "description", operation->doc, "default", "$ref",
                        "#/components/responses/Error");
        if (operation->success == 101)
                json_decref(content);
        else
                json_object_set_new(json_object_get(all, status), "content", content);
        return all;
}

static json_t *error_response(void)
{
        json_t *names = json_array(), *description = json_string("By errors' names:");

        for (size_t i = 0; i < ERRORS; i++) {
                json_t *more = json_sprintf("%s\n- %s (%u): %s", json_string_value(description), errors[i].name,
                                            errors[i].http, errors[i].text);

                json_array_append_new(names, json_string(errors[i].name));
                json_decref(description);
                description = more;
        }
        return json_pack("{s:o, s:{s:{s:{s:s, s:[s], s:{s:{s:s, s:[sss], s:{s:{s:o}, s:{s:[ssss]}, s:{s:s}}}}}}}}",
                         "description", description, "content", "application/json", "schema", "type", "object",
                         "required", "error", "properties", "error", "type", "object", "required", "name", "fault",
                         "message", "properties", "name", "enum", names, "fault", "enum", "caller", "guest", "host",
                         "bug", "message", "type", "string");
}

/* -- the document --------------------------------------------------------------------------------------------- */

/* Unique, as methods are; an operation without a method is named by verb and path. */
static json_t *id_of(const struct operation *operation)
{
        if (*operation->method)
                return json_string(operation->method);
        return strchr(operation->path, '{') ? json_sprintf("%s %s", operation->verb, operation->path)
                                            : json_string(operation->path + 1);
}

static json_t *operation_object(const struct operation *operation)
{
        json_t *object = json_pack("{s:o, s:s, s:o, s:o}", "operationId", id_of(operation), "summary", operation->doc,
                                   "responses", answers(operation), "parameters", parameters(operation));
        json_t *body = request_body(operation);

        if (body)
                json_object_set_new(object, "requestBody", body);
        if (operation->symbol == OPERATION_HEALTH)
                json_object_set_new(object, "security", json_array());
        return object;
}

static json_t *paths(void)
{
        json_t *all = json_object();

        for (int i = 0; i < OPERATION_COUNT; i++) {
                const struct operation *operation = operation_at((enum operation_symbol)i);
                char verb[8] = "";

                if (!*operation->path)
                        continue;
                for (size_t at = 0; operation->verb[at] && at < sizeof(verb) - 1; at++)
                        verb[at] = (char)tolower((unsigned char)operation->verb[at]);
                if (!json_object_get(all, operation->path))
                        json_object_set_new(all, operation->path, json_object());
                json_object_set_new(json_object_get(all, operation->path), verb, operation_object(operation));
        }
        return all;
}

json_t *openapi_document(void)
{
        return json_pack("{s:s, s:{s:s, s:s, s:s}, s:o, s:{s:{s:{s:s, s:s}}, s:{s:o}}, s:[{s:[]}]}", "openapi", "3.1.0",
                         "info", "title", "cloched", "version", CLOCHE_VERSION, "description",
                         "Run code nobody vouches for, each piece in its own Linux box. Values JSON lacks are tagged: "
                         "spec/values.md.",
                         "paths", paths(), "components", "securitySchemes", "token", "type", "http", "scheme", "bearer",
                         "responses", "Error", error_response(), "security", "token");
}
