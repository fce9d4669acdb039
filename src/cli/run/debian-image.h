/* Images that mmdebstrap makes. Functions print a line and return an exit code, or 0. */
#ifndef CLOCHE_CLI_RUN_DEBIAN_IMAGE_H
#define CLOCHE_CLI_RUN_DEBIAN_IMAGE_H

struct cli_request;

struct debian_image {
        const char *name, *suite;
        const char *base;     /* A,B: packages besides those that every Debian has; NULL: none */
        const char *packages; /* the same, of the command line */
        const char *sources;  /* a file; NULL: the files of the machine's apt */
        const char *variant;  /* a set of packages of mmdebstrap; NULL: minbase */
        const char *time;     /* SOURCE_DATE_EPOCH of mmdebstrap; NULL: that of the environment, or now */
        int only_suite;       /* leave out the files that name neither the suite nor one of its parts */
        int is_slim;          /* without manuals, documents and translations, but for licences */
        int is_silent;        /* print no name */
        const char *hook;     /* script of sh(1) that runs before packages come; $1: the image's root. NULL: none */
};

/* Refuse a program that is missing or does not work. */
int debian_image_check_program(const char *program, const char *way_out);
/* The directory in which the image is made: $TMPDIR. */
const char *debian_image_directory(void);
/* Make the image and import it; prints its name. A signal ends the work and removes its files. */
int debian_image_make(struct cli_request *request, const struct debian_image *image);

#endif
