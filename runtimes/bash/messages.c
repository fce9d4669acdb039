#include "bash-agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINES 2
#define LINE_SIZE 1024

/* Messages of this shell; output of programs and subshells bypasses it. */
static struct {
        char lines[LINES][LINE_SIZE]; /* the last complete ones, newest first */
        char current[LINE_SIZE];
        size_t size;
        int is_held, is_mute;
} said;

static void end_line(void)
{
        said.current[said.size] = '\0';
        memmove(said.lines[1], said.lines[0], sizeof(said.lines[0]));
        memcpy(said.lines[0], said.current, said.size + 1);
        said.size = 0;
}

static ssize_t write_message(void *unused, const char *data, size_t size)
{
        (void)unused;
        if (said.is_held)
                return (ssize_t)size;
        for (size_t i = 0; i < size; i++)
                if (data[i] == '\n')
                        end_line();
                else if (said.size < LINE_SIZE - 1)
                        said.current[said.size++] = data[i];
        for (size_t done = 0; done < size && !said.is_mute;) {
                ssize_t n = write(STDERR_FILENO, data + done, size - done);

                if (n < 0 && errno != EINTR)
                        break;
                done += n > 0 ? (size_t)n : 0;
        }
        return (ssize_t)size; /* the code itself closed stderr */
}

/* The shell prints its messages to the C library's stderr, which is a variable. */
void messages_start(void)
{
        FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_message});

        if (!stream)
                return;
        setvbuf(stream, NULL, _IONBF, 0);
        stderr = stream;
}

void messages_forget(void)
{
        memset(&said, 0, sizeof(said));
}

void messages_hold(int is_held)
{
        said.is_held = is_held;
}

void messages_mute(int is_mute)
{
        said.is_mute = is_mute;
}

/* A syntax error's second line shows the line of code: "main.sh: line 3: `fi'". */
static int is_quote_of_code(const char *line)
{
        const char *at = strstr(line, ": `");

        return at && line[strlen(line) - 1] == '\'' && said.lines[1][0];
}

const char *messages_last(void)
{
        return is_quote_of_code(said.lines[0]) ? said.lines[1] : said.lines[0];
}
