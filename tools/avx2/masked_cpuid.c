/* The instruction CPUID as on a processor with AVX2 only.

   In the libraries of an environment made by __main__.py, UD2 stands in place of CPUID. This library,
   loaded with LD_PRELOAD, handles the signal: it executes CPUID and clears the bits of later
   instruction sets. Bits: Intel's and AMD's public manuals, CPUID, leaf 7. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))

enum {
    AVX512_EBX = BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31),
    /* AVX-512 for bytes and bits, GFNI, VAES, VPCLMULQDQ, VNNI */
    AVX512_ECX = BIT(1) | BIT(6) | BIT(8) | BIT(9) | BIT(10) | BIT(11) | BIT(12) | BIT(14),
    /* AVX-512 of Xeon Phi, intersection, float16; AMX */
    AVX512_EDX = BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25),
};

typedef int Sigaction(int, const struct sigaction *, struct sigaction *);

static const unsigned char UD2[] = {0x0f, 0x0b};

static void execute_cpuid(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    unsigned leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
    (void)info;
    if (memcmp((void *)registers[REG_RIP], UD2, sizeof UD2) != 0) {
        signal(number, SIG_DFL); /* truly illegal: it runs again and ends the process */
        return;
    }
    __cpuid_count(leaf, subleaf, a, b, c, d);
    if (leaf == 7 && subleaf == 0) {
        b &= ~(unsigned)AVX512_EBX;
        c &= ~(unsigned)AVX512_ECX;
        d &= ~(unsigned)AVX512_EDX;
    } else if (leaf == 7) {
        a = b = c = d = 0; /* VNNI for AVX2, bfloat16, AVX10 and all later sets */
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += sizeof UD2;
}

static int set_action(int number, const struct sigaction *action, struct sigaction *old)
{
    Sigaction *next = (Sigaction *)dlsym(RTLD_NEXT, "sigaction");
    return next(number, action, old);
}

/* Keeps the handler: Python's faulthandler would replace it. */
int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    return set_action(number, number == SIGILL ? NULL : action, old);
}

__attribute__((constructor)) static void install(void)
{
    struct sigaction action = {.sa_sigaction = execute_cpuid, .sa_flags = SA_SIGINFO | SA_NODEFER};
    set_action(SIGILL, &action, NULL);
}
