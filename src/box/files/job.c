/* Runs in: cloche-files, within a box, with its user's rights. */
#include "job.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void reap(struct files_job *job, int *ret_status)
{
        while (waitpid(job->pid, ret_status, 0) < 0 && errno == EINTR)
                continue;
        fd_close(&job->fd);
        frame_reader_done(&job->reader);
        json_decref(job->id);
        job->id = NULL;
}

void job_kill(struct files_job *job)
{
        int status;

        kill(job->pid, SIGKILL);
        reap(job, &status);
}

void job_flush(const struct files_job *job)
{
        kill(job->pid, SIGUSR1);
}

static void run_job(struct files_request *q, int (*run)(struct files_request *q), int channel_fd, int out_fd,
                    pid_t parent)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        close(channel_fd);
        q->out_fd = out_fd;
        _exit(run(q));
}

int job_start(struct files_job *job, struct files_request *q, int (*run)(struct files_request *q), int channel_fd,
              struct cloche_err *e)
{
        pid_t parent = getpid();
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "start %s", q->method);
        *job = (struct files_job){.fd = ends[0]};
        job->pid = fork();
        if (job->pid == 0)
                run_job(q, run, channel_fd, ends[1], parent);
        close(ends[1]);
        if (job->pid < 0) {
                close(ends[0]);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "start a process for %s", q->method);
        }
        job->id = json_incref((json_t *)q->id);
        frame_reader_init(&job->reader, FRAME_BYTES_MAX);
        return 0;
}

int job_read(struct files_job *job, int (*on_frame)(void *data, const struct frame *frame), void *data,
             int *ret_answered)
{
        struct frame frame;
        int status = -1, r;
        size_t room;
        char *at = frame_reader_room(&job->reader, &room);
        ssize_t n = at ? read(job->fd, at, room) : 0;

        if (n < 0 && errno == EINTR)
                return 1;
        if (n <= 0) {
                if (!at)
                        kill(job->pid, SIGKILL);
                reap(job, &status);
                *ret_answered = WIFEXITED(status) && WEXITSTATUS(status) == 0;
                return 0;
        }
        frame_reader_filled(&job->reader, (size_t)n);
        while ((r = frame_reader_next(&job->reader, &frame, NULL)) > 0)
                if (on_frame(data, &frame) < 0)
                        r = -1;
        if (r < 0)
                kill(job->pid, SIGKILL); /* cannot happen: only our own code writes there */
        return 1;
}
