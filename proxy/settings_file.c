/* Settings file: see settings_file.h. */
#include "settings_file.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_all(int fd, char *out, size_t most, size_t *len)
{
    for (*len = 0; *len < most;) {
        ssize_t got = read(fd, out + *len, most - *len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        *len += (size_t)got;
    }
    return true;
}

char *file_read(const char *path, size_t most, size_t *len, const char **problem)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat about;
    char *text = NULL;

    if (fd < 0) {
        *problem = strerror(errno);
        return NULL;
    }
    if (fstat(fd, &about) != 0) {
        *problem = strerror(errno);
    } else if (!S_ISREG(about.st_mode)) {
        *problem = "it is not a regular file";
    } else {
        text = must_alloc(most + 2); /* one byte more than allowed shows a file that is too large, whatever
                                        its size was said to be */
        if (!read_all(fd, text, most + 1, len))
            *problem = "it cannot be read to its end";
        else if (*len > most)
            *problem = "it is too large";
        else
            *problem = NULL;
        if (*problem != NULL) {
            free(text);
            text = NULL;
        }
    }
    close(fd);
    if (text != NULL) {
        text[*len] = '\0';
        text = must_realloc(text, *len + 1);
    }
    return text;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

char *secret_read(const char *path, const char **problem)
{
    size_t len, from = 0;
    char *text = file_read(path, MAX_SECRET_FILE_BYTES, &len, problem);

    if (text == NULL)
        return NULL;
    while (from < len && is_blank(text[from]))
        from++;
    while (len > from && is_blank(text[len - 1]))
        len--;
    memmove(text, text + from, len - from);
    len -= from;
    text[len] = '\0';
    *problem = len == 0 ? "it holds nothing" : NULL;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7f)
            *problem = "it must hold one word of visible ASCII characters";
    if (*problem == NULL)
        return text;
    explicit_bzero(text, len);
    free(text);
    return NULL;
}

char *path_beside(const char *config_path, const char *path)
{
    const char *slash = strrchr(config_path, '/');
    size_t folder = slash == NULL || path[0] == '/' ? 0 : (size_t)(slash - config_path) + 1;
    char *joined = must_alloc(folder + strlen(path) + 1);

    memcpy(joined, config_path, folder);
    strcpy(joined + folder, path);
    return joined;
}
