// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * System calls of a function that does nothing else, which the guest's kernel replaces
 * (kernel/src/speed/direct_calls.c): the registers after each call, calls that are made again after a signal, steps of
 * one instruction. Prints what is wrong; exit code 0 if nothing is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS 1000
#define STEPS 50

static int failures;

static void check(int right, const char *what)
{
	if (!right) {
		printf("%s: %s\n", what, strerror(errno));
		failures++;
	}
}

#define FUNCTION(name, number)				\
	asm(".p2align 4\n"				\
	    ".globl " #name "\n" #name ":\n"		\
	    "	mov $" #number ", %eax\n"		\
	    "	syscall\n"				\
	    "	cmp $-4095, %rax\n"			\
	    "	jae 1f\n"				\
	    "	ret\n"					\
	    "1:	ret\n")

FUNCTION(parent, 110);	/* getppid */
FUNCTION(reading, 0);	/* read */
FUNCTION(sleeping, 35);	/* nanosleep */
extern long parent(void), reading(int, void *, size_t), sleeping(struct timespec *, struct timespec *);

/* All registers that a system call leaves as they were, before and after CALLS of parent(). */
struct registers {
	unsigned char vector[16][32];
	unsigned long general[12], flags;
};

static void call_with(struct registers *before, struct registers *after)
{
	asm volatile(
		"sub $128, %%rsp\n" /* what the compiler keeps below the stack */
		"push %%rbp\n"
		"push %[after]\n"
		".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
		"vmovdqu \\n * 32(%[before]), %%ymm\\n\n"
		".endr\n"
		"mov 512(%[before]), %%rbx\n mov 520(%[before]), %%rbp\n"
		"mov 528(%[before]), %%r12\n mov 536(%[before]), %%r13\n"
		"mov 544(%[before]), %%r14\n mov 552(%[before]), %%r15\n"
		"mov 560(%[before]), %%rdx\n mov 568(%[before]), %%rsi\n"
		"mov 576(%[before]), %%r8\n mov 584(%[before]), %%r9\n"
		"mov 592(%[before]), %%r10\n"
		"stc\n"
		"mov 600(%[before]), %%rdi\n"
		/* no cmp: the flags are those of before the call */
		"mov $110, %%eax\n"
		"call 2f\n"
		"jmp 3f\n"
		".p2align 4\n"
		"2: mov $110, %%eax\n syscall\n cmp $-4095, %%rax\n jae 1f\n ret\n 1: ret\n"
		"3: mov (%%rsp), %%rax\n"
		".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
		"vmovdqu %%ymm\\n, \\n * 32(%%rax)\n"
		".endr\n"
		"mov %%rbx, 512(%%rax)\n mov %%rbp, 520(%%rax)\n"
		"mov %%r12, 528(%%rax)\n mov %%r13, 536(%%rax)\n"
		"mov %%r14, 544(%%rax)\n mov %%r15, 552(%%rax)\n"
		"mov %%rdx, 560(%%rax)\n mov %%rsi, 568(%%rax)\n"
		"mov %%r8, 576(%%rax)\n mov %%r9, 584(%%rax)\n"
		"mov %%r10, 592(%%rax)\n mov %%rdi, 600(%%rax)\n"
		"pop %[after]\n"
		"pop %%rbp\n"
		"add $128, %%rsp\n"
		: [before] "+D" (before), [after] "+a" (after)
		:
		: "memory", "cc", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

static void registers_are_kept(void)
{
	struct registers before, after;
	int i;
	size_t j;

	for (i = 0; i < CALLS; i++) {
		for (j = 0; j < sizeof(before); j++)
			((unsigned char *)&before)[j] = i * 31 + j * 7;
		memset(&after, 0, sizeof(after));
		call_with(&before, &after);
		after.flags = before.flags;
		if (memcmp(&before, &after, sizeof(before))) {
			check(0, "a register is another one after a call");
			return;
		}
	}
}

static void calls_are_replaced(void)
{
	static const unsigned char call[] = { 0xff, 0x14, 0x25 };
	int i;

	for (i = 0; i < CALLS; i++)
		check(parent() == getppid(), "getppid");
	check(!memcmp((void *)parent, call, sizeof(call)), "the call is as it was in the file");
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
	handled = signal;
	check(parent() == getppid(), "getppid in a handler");
}

static void a_read_is_made_again(int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	struct itimerval soon = { .it_value.tv_usec = 100000 };
	int ends[2], status;
	char byte = 0;
	long got;

	handled = 0;
	check(!pipe(ends) && !sigaction(SIGALRM, &action, NULL), "pipe");
	if (!fork()) {
		usleep(500000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	setitimer(ITIMER_REAL, &soon, NULL);
	got = reading(ends[0], &byte, 1);
	check(handled == SIGALRM, "no signal came");
	if (flags & SA_RESTART)
		check(got == 1 && byte == 'x', "a read that a signal stopped");
	else
		check(got == -EINTR, "a read that a signal ends");
	check(wait(&status) > 0 && !status, "the writer");
}

/* What is left of the time, not all of it again: another number of a call than the first one. */
static void a_sleep_goes_on(void)
{
	struct timespec second = { .tv_sec = 1 }, start, end;
	pid_t sleeper = fork();
	double took_s;
	int status;

	if (!sleeper) {
		clock_gettime(CLOCK_MONOTONIC, &start);
		status = sleeping(&second, NULL) || sleeping(&(struct timespec){ .tv_nsec = 1000 }, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		took_s = end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) * 1e-9;
		if (status || took_s < 1 || took_s > 1.1)
			printf("slept for %f s (%d)\n", took_s, status);
		fflush(stdout);
		_exit(status || took_s < 1 || took_s > 1.1);
	}
	usleep(300000);
	kill(sleeper, SIGSTOP);
	usleep(300000);
	kill(sleeper, SIGCONT);
	check(wait(&status) == sleeper && !status, "a sleep that was stopped and went on");
}

static void steps_are_of_one_instruction(void)
{
	struct user_regs_struct registers = { 0 };
	unsigned long last = 0;
	int status, i, same = 0;
	pid_t child = fork();

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		for (volatile int n = 0; n < STEPS; n++)
			;
		_exit(parent() == getppid() ? 7 : 8);
	}
	waitpid(child, &status, 0);
	for (i = 0; i < STEPS && WIFSTOPPED(status); i++) {
		check(!ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), "ptrace");
		waitpid(child, &status, 0);
		check(!ptrace(PTRACE_GETREGS, child, NULL, &registers), "ptrace");
		same += registers.rip == last;
		last = registers.rip;
	}
	check(i == STEPS && !same, "steps");
	check(!ptrace(PTRACE_CONT, child, NULL, NULL), "ptrace");
	check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "after the steps");
}

int main(void)
{
	calls_are_replaced();
	registers_are_kept();
	a_read_is_made_again(0);
	a_read_is_made_again(SA_RESTART);
	a_sleep_goes_on();
	steps_are_of_one_instruction();
	return failures != 0;
}
