/* The tools, prompts and resources that the conformance tests of the protocol expect
 * (@modelcontextprotocol/conformance, cloched --mcp --conformance). They do nothing of their
 * own: each one drives a mechanism that the real ones use. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define STEP_NS UINT64_C(50000000)
#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
#define WAV "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQQAAAAAAAAA"
#define IMAGE "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define ELICIT(message, properties, required)                                   \
        "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"" message \
        "\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]}}}"
#define STRING "{\"type\":\"string\"}"
#define SAMPLE(text, tokens)                                                                                     \
        "{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\",\"content\":" TEXT( \
                text) "}],\"maxTokens\":" tokens "}}"
#define ROOTS "{\"method\":\"roots/list\",\"params\":{}}"
#define ASK_NAME ELICIT("What is your name?", "\"name\":" STRING, "\"name\"")
#define ASK_OK ELICIT("Please confirm", "\"ok\":{\"type\":\"boolean\"}", "\"ok\"")
#define CHOICES "\"enum\":[\"option1\",\"option2\",\"option3\"]"

struct fixture {
        const char *name, *description;
        void (*handle)(struct mcp_exchange *x, const struct fixture *f);
        const char *questions; /* {method, params} by key */
        const char *content;   /* of the result, or the text before the answers */
        const char *schema;    /* of arguments; NULL: there are none */
        int keeps_state;       /* answers count only with the request state */
};

/* -- results ----------------------------------------------------------------------------------------------------- */

static json_t *parsed(const char *text)
{
        return json_loads(text, JSON_DECODE_ANY, NULL);
}

static void answer_content(struct mcp_exchange *x, const struct fixture *f)
{
        mcp_tool_answer(x, parsed(f->content), NULL, 0);
}

static void answer_text(struct mcp_exchange *x, const char *text)
{
        mcp_tool_answer_text(x, json_string(text), NULL, 0);
}

static void answer_failure(struct mcp_exchange *x, const struct fixture *f)
{
        mcp_tool_answer(x, parsed(f->content), NULL, 1);
}

static void answer_log(struct mcp_exchange *x, const struct fixture *f)
{
        mcp_log(x, MCP_INFO, "fixture", json_string("The tool logs"));
        answer_content(x, f);
}

/* -- steps in time ----------------------------------------------------------------------------------------------- */

static const struct step {
        const char *log;
        int progress;
} steps[] = {{"Tool execution started", 0}, {"Tool processing data", 50}, {"Tool execution completed", 100}};
#define STEP_COUNT (sizeof(steps) / sizeof(steps[0]))

static void take_step(struct mcp_exchange *x)
{
        const struct step *step = &steps[x->progress_count++];

        mcp_log(x, MCP_INFO, "fixture", json_string(step->log));
        if (x->progress_token)
                x->carrier->notify(x, mcp_notification("notifications/progress",
                                                       json_pack("{s:O, s:i, s:i}", "progressToken", x->progress_token,
                                                                 "progress", step->progress, "total", 100)));
        if (x->progress_count < (json_int_t)STEP_COUNT)
                mcp_set_deadline(x, clock_now_ns() + STEP_NS, take_step);
        else
                answer_text(x, "The tool took its steps.");
}

static void answer_in_steps(struct mcp_exchange *x, const struct fixture *f)
{
        (void)f;
        take_step(x);
}

static void answer_resumed(struct mcp_exchange *x)
{
        answer_text(x, "The stream was closed and resumed.");
}

static void answer_later(struct mcp_exchange *x, const struct fixture *f)
{
        (void)f;
        (void)mcp_break_off(x);
        mcp_set_deadline(x, clock_now_ns() + STEP_NS, answer_resumed);
}

/* -- changes ----------------------------------------------------------------------------------------------------- */

static void change_tools(struct mcp_exchange *x, const struct fixture *f)
{
        mcp_list_changed(x->door.daemon, "tools");
        answer_content(x, f);
}

static void change_prompts(struct mcp_exchange *x, const struct fixture *f)
{
        mcp_list_changed(x->door.daemon, "prompts");
        answer_content(x, f);
}

/* -- questions --------------------------------------------------------------------------------------------------- */

/* The questions that have no answer yet. */
static json_t *open_questions(const struct mcp_exchange *x, const struct fixture *f)
{
        json_t *questions = parsed(f->questions), *question;
        const char *key;
        void *next;

        json_object_foreach_safe (questions, next, key, question)
                if (mcp_input(x, key, mcp_text(question, "method")) && (!f->keeps_state || x->kept))
                        json_object_del(questions, key);
        return questions;
}

static void answer_inputs(struct mcp_exchange *x, const struct fixture *f)
{
        char *inputs = json_dumps(x->inputs, JSON_COMPACT);

        mcp_tool_answer_text(x, json_sprintf("%s%s", f->content, inputs ? inputs : ""), NULL, 0);
        free(inputs);
}

static void ask(struct mcp_exchange *x, const struct fixture *f)
{
        json_t *questions = open_questions(x, f);

        if (json_object_size(questions) > 0) {
                mcp_ask(x, questions, json_pack("{s:s}", "of", f->name));
                return;
        }
        json_decref(questions);
        answer_inputs(x, f);
}

/* The text of the question is the first argument. */
static void ask_with(struct mcp_exchange *x, json_t *question, const struct fixture *f)
{
        if (mcp_input(x, "question", mcp_text(question, "method"))) {
                json_decref(question);
                answer_inputs(x, f);
        } else {
                mcp_ask(x, json_pack("{s:o}", "question", question), NULL);
        }
}

static void ask_user(struct mcp_exchange *x, const struct fixture *f)
{
        json_t *question = parsed(f->questions);
        const char *message = mcp_text(x->arguments, "message");

        json_object_set_new(json_object_get(question, "params"), "message", json_string(message ? message : ""));
        ask_with(x, question, f);
}

static void ask_model(struct mcp_exchange *x, const struct fixture *f)
{
        json_t *question = parsed(f->questions),
               *messages = json_object_get(json_object_get(question, "params"), "messages");
        const char *prompt = mcp_text(x->arguments, "prompt");

        json_object_set_new(json_object_get(json_array_get(messages, 0), "content"), "text",
                            json_string(prompt ? prompt : ""));
        ask_with(x, question, f);
}

/* Only for capabilities that the client declared. */
static void ask_capable(struct mcp_exchange *x, const struct fixture *f)
{
        static const char *const capabilities[] = {"elicitation", "sampling", "roots"};
        json_t *questions = open_questions(x, f);

        for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++)
                if (!json_object_get(mcp_capabilities(x), capabilities[i]))
                        json_object_del(questions, capabilities[i]);
        if (json_object_size(questions) > 0) {
                mcp_ask(x, questions, NULL);
                return;
        }
        json_decref(questions);
        answer_inputs(x, f);
}

/* The second question follows the answer to the first. */
static void ask_twice(struct mcp_exchange *x, const struct fixture *f)
{
        static const char *const keys[] = {"step1", "step2"};
        json_t *questions = parsed(f->questions);
        json_int_t round = json_integer_value(json_object_get(x->kept, "round"));

        if (x->kept && mcp_input(x, keys[round], "elicitation/create"))
                round++;
        if (round < 2)
                mcp_ask(x, json_pack("{s:O}", keys[round], json_object_get(questions, keys[round])),
                        json_pack("{s:I}", "round", round));
        else
                answer_inputs(x, f);
        json_decref(questions);
}

static void need_sampling(struct mcp_exchange *x, const struct fixture *f)
{
        if (!mcp_refuse_incapable(x, "sampling"))
                answer_content(x, f);
}

/* -- tools ------------------------------------------------------------------------------------------------------- */

static const struct fixture tools[] = {
        {"test_simple_text", "Return a text.", answer_content,
         .content = "[" TEXT("This is a simple text response for testing.") "]",
         .schema = "{\"sandbox\":{\"type\":\"string\",\"x-mcp-header\":\"Sandbox\"}}"},
        {"test_image_content", "Return an image.", answer_content, .content = "[" IMAGE "]"},
        {"test_audio_content", "Return a sound.", answer_content,
         .content = "[{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}]"},
        {"test_embedded_resource", "Return a resource.", answer_content,
         .content = "[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\",\"mimeType\":"
                    "\"text/plain\",\"text\":\"This is an embedded resource content.\"}}]"},
        {"test_multiple_content_types", "Return a text, an image and a resource.", answer_content,
         .content = "[" TEXT("Multiple content types test:") "," IMAGE ",{\"type\":\"resource\",\"resource\":{\"uri\":"
                                                             "\"test://mixed-content-resource\",\"mimeType\":"
                                                             "\"application/"
                                                             "json\",\"text\":\"{\\\"test\\\":\\\"data\\\","
                                                             "\\\"value\\\":123}\"}}]"},
        {"test_tool_with_logging", "Send three log messages.", answer_in_steps},
        {"test_tool_with_progress", "Tell progress three times.", answer_in_steps},
        {"test_error_handling", "Fail.", answer_failure,
         .content = "[" TEXT("This tool intentionally returns an error for testing") "]"},
        {"test_sampling", "Ask the client's model.", ask_model, SAMPLE("", "100"),
         "LLM response: ", "{\"prompt\":{\"type\":\"string\",\"description\":\"The question.\"}}"},
        {"test_elicitation", "Ask the user.", ask_user,
         ELICIT("",
                "\"username\":{\"type\":\"string\",\"description\":\"User's "
                "response\"},\"email\":{\"type\":\"string\",\"description\":\"User's email address\"}",
                "\"username\",\"email\""),
         "User response: ", "{\"message\":{\"type\":\"string\",\"description\":\"The question.\"}}"},
        {"test_elicitation_sep1034_defaults", "Ask with defaults.", ask,
         "{\"form\":" ELICIT("Please check",
                             "\"name\":{\"type\":\"string\",\"default\":\"John "
                             "Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},\"score\":{\"type\":\"number\","
                             "\"default\":95.5},"
                             "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
                             "\"default\":\"active\"},\"verified\":{\"type\":\"boolean\",\"default\":true}",
                             "") "}",
         "Elicitation completed: "},
        {"test_elicitation_sep1330_enums", "Ask with choices.", ask,
         "{\"form\":" ELICIT("Please choose",
                             "\"untitledSingle\":{\"type\":\"string\"," CHOICES "},"
                             "\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":\"First "
                             "Option\"},{\"const\":\"value2\",\"title\":\"Second "
                             "Option\"},{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
                             "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],\"enumNames\":["
                             "\"Option One\",\"Option Two\",\"Option Three\"]},"
                             "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\"," CHOICES "}},"
                             "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\","
                             "\"title\":\"First Choice\"},{\"const\":\"value2\",\"title\":\"Second "
                             "Choice\"},{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}",
                             "") "}",
         "Elicitation completed: "},
        {"test_reconnection", "Close the stream and answer on the next one.", answer_later},
        {"test_missing_capability", "Need the capability sampling.", need_sampling,
         .content = "[" TEXT("The client can sample.") "]"},
        {"test_streaming_elicitation", "Ask the user.", ask, "{\"confirm\":" ASK_OK "}", "Confirmed: "},
        {"test_logging_tool", "Send a log message.", answer_log, .content = "[" TEXT("The tool has logged.") "]"},
        {"test_trigger_tool_change", "Tell that the list of tools changed.", change_tools,
         .content = "[" TEXT("Told.") "]"},
        {"test_trigger_prompt_change", "Tell that the list of prompts changed.", change_prompts,
         .content = "[" TEXT("Told.") "]"},
        {"json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", answer_content,
         .content = "[" TEXT("Done.") "]",
         .schema = "{\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{"
                   "\"street\":" STRING ",\"city\":" STRING "}}},"
                   "\"properties\":{\"name\":" STRING ",\"address\":{\"$ref\":\"#/$defs/"
                   "address\"},\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":" STRING
                   ",\"email\":" STRING "},"
                   "\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{"
                   "\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},"
                   "\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]}}"},
        {"test_input_required_result_elicitation", "Ask the user.", ask, "{\"user_name\":" ASK_NAME "}", "Hello: "},
        {"test_input_required_result_sampling", "Ask the client's model.", ask,
         "{\"capital_question\":" SAMPLE("What is the capital of France?", "100") "}", "The model said: "},
        {"test_input_required_result_list_roots", "Ask for roots.", ask, "{\"client_roots\":" ROOTS "}", "Roots: "},
        {"test_input_required_result_request_state", "Ask with a state.", ask, "{\"confirm\":" ASK_OK "}", "state-ok ",
         .keeps_state = 1},
        {"test_input_required_result_multiple_inputs", "Ask three questions.", ask,
         "{\"user_name\":" ASK_NAME ",\"greeting\":" SAMPLE("Generate a greeting", "50") ",\"client_roots\":" ROOTS "}",
         "Answers: "},
        {"test_input_required_result_multi_round", "Ask in two rounds.", ask_twice,
         "{\"step1\":" ELICIT("Step 1: What is your name?", "\"name\":" STRING,
                              "\"name\"") ",\"step2\":" ELICIT("Step 2: What is your favorite color?",
                                                               "\"color\":" STRING, "\"color\"") "}",
         "Answers: "},
        {"test_input_required_result_tampered_state", "Ask with a state.", ask, "{\"confirm\":" ASK_OK "}",
         "Confirmed: ", .keeps_state = 1},
        {"test_input_required_result_capabilities", "Ask what the client can be asked.", ask_capable,
         "{\"elicitation\":" ASK_NAME ",\"sampling\":" SAMPLE("Generate a greeting", "50") ",\"roots\":" ROOTS "}",
         "Answers: "},
};
#define TOOL_COUNT (sizeof(tools) / sizeof(tools[0]))

static json_t *tool_of(const struct fixture *f)
{
        json_t *schema = parsed("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
                                "\"additionalProperties\":false}"),
               *own = f->schema ? parsed(f->schema) : NULL;

        if (json_object_get(own, "properties"))
                json_object_update(schema, own);
        else if (own)
                json_object_set(schema, "properties", own);
        json_decref(own);
        return json_pack("{s:s, s:s, s:o}", "name", f->name, "description", f->description, "inputSchema", schema);
}

static int is_on(const struct mcp_exchange *x)
{
        return x->door.daemon->options.is_conformance;
}

int mcp_fixture_call(struct mcp_exchange *x)
{
        const char *name = mcp_text(x->params, "name");

        for (size_t i = 0; is_on(x) && i < TOOL_COUNT; i++)
                if (strcmp(tools[i].name, name) == 0) {
                        x->arguments = json_object_get(x->params, "arguments");
                        tools[i].handle(x, &tools[i]);
                        return 1;
                }
        return 0;
}

/* -- prompts ----------------------------------------------------------------------------------------------------- */

static void answer_messages(struct mcp_exchange *x, const struct fixture *f)
{
        const json_t *arguments = json_object_get(x->params, "arguments");
        json_t *messages = json_array(), *contents = parsed(f->content), *content;
        const char *uri = mcp_text(arguments, "resourceUri");
        size_t i;

        json_array_foreach (contents, i, content) {
                if (uri && json_object_get(content, "resource"))
                        json_object_set_new(json_object_get(content, "resource"), "uri", json_string(uri));
                json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", content));
        }
        json_decref(contents);
        mcp_answer(x, json_pack("{s:o}", "messages", messages));
}

static void answer_with_arguments(struct mcp_exchange *x, const struct fixture *f)
{
        const json_t *arguments = json_object_get(x->params, "arguments");
        const char *one = mcp_text(arguments, "arg1"), *two = mcp_text(arguments, "arg2");

        mcp_answer(x,
                   json_pack("{s:[{s:s, s:{s:s, s:o}}]}", "messages", "role", "user", "content", "type", "text", "text",
                             json_sprintf("%s arg1='%s', arg2='%s'", f->content, one ? one : "", two ? two : "")));
}

static void ask_for_prompt(struct mcp_exchange *x, const struct fixture *f)
{
        json_t *questions = open_questions(x, f);

        if (json_object_size(questions) > 0) {
                mcp_ask(x, questions, NULL);
                return;
        }
        json_decref(questions);
        answer_messages(x, f);
}

static const struct fixture prompts[] = {
        {"test_simple_prompt", "A text.", answer_messages,
         .content = "[" TEXT("This is a simple prompt for testing.") "]"},
        {"test_prompt_with_arguments", "A text with arguments.", answer_with_arguments,
         .content = "Prompt with arguments:",
         .schema = "[{\"name\":\"arg1\",\"description\":\"First test argument\",\"required\":true},{\"name\":\"arg2\","
                   "\"description\":\"Second test argument\",\"required\":true}]"},
        {"test_prompt_with_embedded_resource", "A resource.", answer_messages,
         .content = "[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\",\"mimeType\":"
                    "\"text/plain\",\"text\":\"Embedded resource content for testing.\"}}," TEXT(
                            "Please process the embedded resource above.") "]",
         .schema = "[{\"name\":\"resourceUri\",\"description\":\"URI of the resource to embed\",\"required\":true}]"},
        {"test_prompt_with_image", "An image.", answer_messages,
         .content = "[" IMAGE "," TEXT("Please analyze the image above.") "]"},
        {"test_input_required_result_prompt", "A text that needs an answer.", ask_for_prompt,
         "{\"user_context\":" ELICIT("What context should the prompt use?", "\"context\":" STRING, "\"context\"") "}",
         "[" TEXT("Use the context.") "]"},
};
#define PROMPT_COUNT (sizeof(prompts) / sizeof(prompts[0]))

static json_t *prompt_of(const struct fixture *f)
{
        return json_pack("{s:s, s:s, s:o*}", "name", f->name, "description", f->description, "arguments",
                         f->schema ? parsed(f->schema) : NULL);
}

int mcp_fixture_prompt(struct mcp_exchange *x)
{
        const char *name = mcp_text(x->params, "name");

        for (size_t i = 0; name && is_on(x) && i < PROMPT_COUNT; i++)
                if (strcmp(prompts[i].name, name) == 0) {
                        prompts[i].handle(x, &prompts[i]);
                        return 1;
                }
        return 0;
}

/* -- resources --------------------------------------------------------------------------------------------------- */

static const struct resource {
        const char *uri, *name, *mime, *member, *value;
} resources[] = {
        {"test://static-text", "static-text", "text/plain", "text", "This is the content of the static text resource."},
        {"test://static-binary", "static-binary", "image/png", "blob", PNG},
        {"test://watched-resource", "watched-resource", "text/plain", "text", "Watched"},
};
#define RESOURCE_COUNT (sizeof(resources) / sizeof(resources[0]))
#define TEMPLATE "test://template/"
#define TEMPLATE_END "/data"

static json_t *resource_of(const struct resource *r)
{
        return json_pack("{s:s, s:s, s:s}", "uri", r->uri, "name", r->name, "mimeType", r->mime);
}

static const struct resource *find_resource(const struct mcp_exchange *x, const char *uri)
{
        for (size_t i = 0; is_on(x) && i < RESOURCE_COUNT; i++)
                if (strcmp(resources[i].uri, uri) == 0)
                        return &resources[i];
        return NULL;
}

int mcp_fixture_has(const struct mcp_exchange *x, const char *uri)
{
        return find_resource(x, uri) != NULL;
}

static void answer_resource(struct mcp_exchange *x, const char *mime, const char *member, json_t *value)
{
        mcp_answer(x, mcp_cached(x,
                                 json_pack("{s:[{s:O, s:s, s:o}]}", "contents", "uri",
                                           json_object_get(x->params, "uri"), "mimeType", mime, member, value),
                                 0));
}

int mcp_fixture_resource(struct mcp_exchange *x)
{
        const char *uri = mcp_text(x->params, "uri");
        const struct resource *r = find_resource(x, uri);
        size_t before = sizeof(TEMPLATE) - 1, after = sizeof(TEMPLATE_END) - 1, size = strlen(uri);

        if (r) {
                answer_resource(x, r->mime, r->member, json_string(r->value));
                return 1;
        }
        if (!is_on(x) || size <= before + after || strncmp(uri, TEMPLATE, before) != 0 ||
            strcmp(uri + size - after, TEMPLATE_END) != 0)
                return 0;
        answer_resource(x, "application/json", "text",
                        json_sprintf("{\"id\":\"%.*s\",\"templateTest\":true,\"data\":\"Data for ID: %.*s\"}",
                                     (int)(size - before - after), uri + before, (int)(size - before - after),
                                     uri + before));
        return 1;
}

/* -- lists ------------------------------------------------------------------------------------------------------- */

static void list_tools(json_t *add_to)
{
        for (size_t i = 0; i < TOOL_COUNT; i++)
                json_array_append_new(add_to, tool_of(&tools[i]));
}

static void list_prompts(json_t *add_to)
{
        for (size_t i = 0; i < PROMPT_COUNT; i++)
                json_array_append_new(add_to, prompt_of(&prompts[i]));
}

static void list_resources(json_t *add_to)
{
        for (size_t i = 0; i < RESOURCE_COUNT; i++)
                json_array_append_new(add_to, resource_of(&resources[i]));
}

static void list_templates(json_t *add_to)
{
        json_array_append_new(add_to, json_pack("{s:s, s:s, s:s}", "uriTemplate", TEMPLATE "{id}" TEMPLATE_END, "name",
                                                "template", "mimeType", "application/json"));
}

void mcp_fixtures_list(const struct mcp_exchange *x, const char *list, json_t *add_to)
{
        static const struct {
                const char *name;
                void (*add)(json_t *add_to);
        } lists[] = {
                {"tools", list_tools},
                {"prompts", list_prompts},
                {"resources", list_resources},
                {"resourceTemplates", list_templates},
        };

        for (size_t i = 0; is_on(x) && i < sizeof(lists) / sizeof(lists[0]); i++)
                if (strcmp(lists[i].name, list) == 0)
                        lists[i].add(add_to);
}
