// Whether OpenGL can be asked for at all. The library panics, and with it the process, where libEGL is installed but no
// driver of it gives a display; so this tries what the library would do first.
#include "native.h"

#ifdef __linux__
#include <dlfcn.h>
#include <string.h>

int gt_opengl_usable(void) {
    void *egl = dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!egl) egl = dlopen("libEGL.so", RTLD_NOW | RTLD_LOCAL);
    if (!egl) return 1; // the library finds none either, and says so
    // The handle stays open: a driver may keep threads of its own.
    char const *(*query)(void *display, int32_t name);
    void *(*get_display)(void *native);
    *(void **)&query = dlsym(egl, "eglQueryString");
    *(void **)&get_display = dlsym(egl, "eglGetDisplay");
    if (!query || !get_display) return 0;
    enum { extensions = 0x3055 };
    char const *client = query(NULL, extensions);
    if (client && strstr(client, "EGL_MESA_platform_surfaceless")) return 1;
    return get_display(NULL) != NULL;
}
#else
int gt_opengl_usable(void) { return 1; }
#endif
