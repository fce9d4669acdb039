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

static int takes(const struct operation *operation, const struct operation_field *field)
{
        return (field->required | field->optional) >> operation->symbol & 1;
}

static int is_in_path(const struct operation *operation, const struct operation_field *field)
{
        const char *brace = strchr(operation->path, '{');
        size_t size = strlen(field->name);

        return brace && strncmp(brace + 1, field->name, size) == 0 && brace[size + 1] == '}';
}

static json_t *described(const struct operation_field *field)
{
        json_t *schema = field_schema(field->type);

        json_object_set_new(schema, "description", json_string(field->doc));
        return schema;
}

static json_t *body_schema(const struct operation *operation)
{
        json_t *properties = json_object(), *required = json_array(), *schema;
        const struct operation_field *fields;
        size_t count;

        fields = operation_fields(&count);
        for (size_t i = 0; i < count; i++) {
                if (!takes(operation, &fields[i]) || is_in_path(operation, &fields[i]))
                        continue;
                json_object_set_new(properties, fields[i].name, described(&fields[i]));
                if (fields[i].required >> operation->symbol & 1)
                        json_array_append_new(required, json_string(fields[i].name));
        }
        schema = json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties, "additionalProperties", 0);
        if (json_array_size(required) > 0)
                json_object_set(schema, "required", required);
        json_decref(required);
        return schema;
}

static json_t *path_parameters(const struct operation *operation)
{
        json_t *list = json_array();
        const struct operation_field *fields;
        size_t count;

        fields = operation_fields(&count);
        for (size_t i = 0; i < count; i++)
                if (takes(operation, &fields[i]) && is_in_path(operation, &fields[i]))
                        json_array_append_new(list,
                                              json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", fields[i].name, "in", "path", "required", 1,
                                                        "description", fields[i].doc, "schema", field_schema(fields[i].type)));
        return list;
}

/* -- answers -------------------------------------------------------------------------------------------------- */

static json_t *answers(const struct operation *operation)
{
        char status[8];
        int is_text = operation->symbol == OPERATION_METRICS;
        json_t *all, *content = json_pack("{s:{s:{s:s}}}", is_text ? "text/plain" : "application/json", "schema", "type",
                                          is_text ? "string" : "object");

        if (operation->symbol == OPERATION_CALL || operation->symbol == OPERATION_SCRIPT || operation->symbol == OPERATION_EVALUATE)
                json_object_set_new(content, "text/event-stream", json_pack("{s:{s:s}}", "schema", "type", "string"));
        snprintf(status, sizeof(status), "%u", operation->success);
        all = json_pack("{s:{s:s}, s:{s:s}}", status, "description", operation->doc, "default", "$ref", "#/components/responses/Error");
        if (operation->symbol == OPERATION_RPC)
                json_decref(content);
        else
                json_object_set_new(json_object_get(all, status), "content", content);
        return all;
}

static json_t *error_response(void)
{
        json_t *names = json_array(), *description = json_string("By errors' names:");

        for (size_t i = 0; i < ERRORS; i++) {
                json_t *more =
                        json_sprintf("%s\n- %s (%u): %s", json_string_value(description), errors[i].name, errors[i].http, errors[i].text);

                json_array_append_new(names, json_string(errors[i].name));
                json_decref(description);
                description = more;
        }
        return json_pack("{s:o, s:{s:{s:{s:s, s:[s], s:{s:{s:s, s:[sss], s:{s:{s:o}, s:{s:[ssss]}, s:{s:s}}}}}}}}", "description",
                         description, "content", "application/json", "schema", "type", "object", "required", "error", "properties",
                         "error", "type", "object", "required", "name", "fault", "message", "properties", "name", "enum", names, "fault",
                         "enum", "caller", "guest", "host", "bug", "message", "type", "string");
}

/* -- the document --------------------------------------------------------------------------------------------- */

static json_t *operation_object(const struct operation *operation)
{
        const char *name = *operation->method ? operation->method : operation->path + 1;
        json_t *object = json_pack("{s:s, s:s, s:o, s:o}", "operationId", name, "summary", operation->doc, "responses", answers(operation),
                                   "parameters", path_parameters(operation));

        if (strcmp(operation->verb, "POST") == 0)
                json_object_set_new(
                        object, "requestBody",
                        json_pack("{s:b, s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema", body_schema(operation)));
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
        return json_pack("{s:s, s:{s:s, s:s, s:s}, s:o, s:{s:{s:{s:s, s:s}}, s:{s:o}}, s:[{s:[]}]}", "openapi", "3.1.0", "info", "title",
                         "cloched", "version", CLOCHE_VERSION, "description",
                         "Run code nobody vouches for, each piece in its own Linux box. Values JSON lacks are tagged: spec/values.md.",
                         "paths", paths(), "components", "securitySchemes", "token", "type", "http", "scheme", "bearer", "responses",
                         "Error", error_response(), "security", "token");
}
