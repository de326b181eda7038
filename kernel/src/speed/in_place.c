// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel runs in the process of the program that calls it.
 *
 * With stubs a system call of a program is a signal, and then a switch to the
 * kernel's process and one back. Here every process of the host that programs
 * run in has the kernel's memory, too, at the same addresses and shared by all of
 * them. So the kernel goes on in whatever process a program has left, and processes
 * are switched when programs are. A fault is a signal, and so is a system call, but
 * for those of the C library, which become calls of the kernel (direct_calls.c).
 *
 * One of the processes runs, all others wait for their turn (struct
 * um_process). The kernel may be in any of them; what it needs a certain one for
 * (a program's memory, the end) it does after enter_process(). That is a longjmp
 * in another process: everything it sees is the same, but for programs' memory.
 *
 * A process is left over when its program has ended, and is used for another. The
 * first one is the kernel's own; it runs no program, and watches for those that
 * compute without end.
 *
 * Only in inf-cpu time travel: no signal of a timer then wants the kernel.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stddef.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ucontext.h>
#include <asm/unistd.h>
#include <asm/prctl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <as-layout.h>
#include <init.h>
#include <kern_util.h>
#include <longjmp.h>
#include <mem.h>
#include <mem_user.h>
#include <os.h>
#include <skas.h>
#include <sysdep/mcontext.h>
#include <sysdep/stub.h>
#include <timetravel.h>
#include <asm-generic/rwonce.h>
#include <in_place.h>
#include "../os-Linux/internal.h"

struct um_process {
	int pid;
	/* Waited for until it is not 0. */
	unsigned int turn;
	/* The state of the kernel's mappings that it has (kernel_unmappings). */
	unsigned long kernel_unmappings;
	struct um_process *next, *next_free;
};

/* What a process has, in the kernel's memory. */
struct pages {
	struct stub_data data;
	/* The stack of programs' signals after the first one, for end_signal(). */
	unsigned char first_signal[UM_KERN_PAGE_SIZE];
	struct um_process process;
};

static_assert(sizeof(struct pages) <= UM_KERN_PAGE_SIZE << PROCESS_PAGES_ORDER);

static struct um_process main_process;
static struct um_process *here = &main_process, *free_processes;
/* Pages of a process that the host refused. */
static struct pages *unused_pages;
static jmp_buf kernel_goes_on, program_stopped;

/* Read by the first process, too, while another one runs. */
static bool in_program, spins;
static unsigned long stops;
static unsigned long kernel_unmappings;

/* Of every process its own: where it is when it waits. */
#define OWN_STACK_SIZE	(16 * UM_KERN_PAGE_SIZE)
static char *own_stack;

/* The parts of the floating point registers that a signal saves; 0 without xsave. */
unsigned long fp_features;

static unsigned long kernel_fs;
static bool has_fsgsbase;
#ifndef HWCAP2_FSGSBASE
#define HWCAP2_FSGSBASE	(1 << 1)
#endif

#define TRAP_FLAG	(1UL << 8)	/* a signal after one instruction */

#define SPIN_CPU_LIMIT_NS	(20 * 1000000000LL)

int runs_in_place(void)
{
	return using_seccomp && time_travel_mode == TT_MODE_INFCPU;
}

static struct pages *pages_of(struct um_process *process)
{
	return (void *)process - offsetof(struct pages, process);
}

static long futex(unsigned int *word, int operation, unsigned int value,
		  const struct timespec *limit)
{
	/* Without errno, which is the kernel's: this process may not be. */
	return stub_syscall4(__NR_futex, (unsigned long)word, operation, value,
			     (unsigned long)limit);
}

static void __noreturn die(const char *why)
{
	stub_syscall3(__NR_write, 1, (unsigned long)why, strlen(why));
	for (;;)
		stub_syscall1(__NR_exit_group, 1);
}

/*
 * A program that computes for ever never enters the kernel. Every second, by the
 * first process.
 */
static void look_at_program(void)
{
	static unsigned long seen_stops;
	static long long since_ns = -1;
	struct um_process *running = READ_ONCE(here);
	struct timespec used = {};
	long long now;

	if (stub_syscall4(__NR_wait4, -1, 0, 1 /* WNOHANG */, 0) > 0)
		die("a process of the guest was lost\n");

	stub_syscall2(__NR_clock_gettime, ((unsigned int)~running->pid << 3) | 2,
		      (unsigned long)&used);
	now = used.tv_sec * 1000000000LL + used.tv_nsec;
	if (!READ_ONCE(in_program) || READ_ONCE(stops) != seen_stops || since_ns < 0) {
		seen_stops = READ_ONCE(stops);
		since_ns = now;
	} else if (now - since_ns > SPIN_CPU_LIMIT_NS) {
		WRITE_ONCE(spins, true);
		stub_syscall2(__NR_kill, running->pid, SIGALRM);
	}
}

/* The process that this is, which is not always the one whose turn it is. */
static struct um_process *self(void)
{
	return *(struct um_process **)own_stack;
}

static void __noreturn wait_for_turn(struct um_process *me)
{
	static const struct timespec second = { .tv_sec = 1 };

	while (!__atomic_load_n(&me->turn, __ATOMIC_SEQ_CST))
		if (futex(&me->turn, FUTEX_WAIT, 0,
			  me == &main_process ? &second : NULL) == -ETIMEDOUT)
			look_at_program();
	me->turn = 0;
	longjmp(kernel_goes_on, 1);
	__builtin_unreachable();
}

static void __noreturn on_own_stack(void (*function)(void *), void *argument)
{
	asm volatile("mov %0, %%rsp\n\txor %%ebp, %%ebp\n\tcall *%1"
		     : : "r" (own_stack + OWN_STACK_SIZE), "r" (function), "D" (argument)
		     : "memory");
	__builtin_unreachable();
}

static void leave_to(void *other)
{
	struct um_process *me = here;

	here = other;
	__atomic_store_n(&here->turn, 1, __ATOMIC_SEQ_CST);
	futex(&here->turn, FUTEX_WAKE, 1, NULL);
	wait_for_turn(me);
}

static void enter(struct um_process *process)
{
	if (process == here)
		return;
	if (setjmp(kernel_goes_on) == 0)
		on_own_stack(leave_to, process);

	if (process->kernel_unmappings != kernel_unmappings) {
		/* A fault brings back what is used. */
		stub_syscall2(__NR_munmap, start_vm, end_vm - start_vm);
		process->kernel_unmappings = kernel_unmappings;
	}
}

void enter_process(struct mm_id *id)
{
	enter(id->process);
}

void enter_main_process(void)
{
	enter(&main_process);
}

void kernel_unmapped(void)
{
	here->kernel_unmappings = ++kernel_unmappings;
}

static void set_fs(unsigned long base)
{
	if (has_fsgsbase)
		asm volatile("wrfsbase %0" : : "r" (base) : "memory");
	else
		stub_syscall2(__NR_arch_prctl, ARCH_SET_FS, base);
}

static void note_signal(struct stub_data *data, int signal, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	unsigned long stack = STUB_DATA + offsetof(struct stub_data, sigstack);

	data->signal = signal;
	data->si_offset = (unsigned long)info - stack;
	data->mctx_offset = (unsigned long)&uc->uc_mcontext - stack;
}

/* A program was stopped, or the kernel was. */
static void stopped(int signal, siginfo_t *info, void *context)
{
	if (!in_program || here != self()) {
		if (signal == SIGALRM)
			return;	/* it does not spin any more */
		if (signal == SIGSYS)
			die("a system call from outside the kernel's text\n");
		hard_handler(signal, info, context);
		return;
	}
	set_fs(kernel_fs);
	in_program = false;
	stops++;
	note_signal(&pages_of(here)->data, signal, info, context);
	longjmp(program_stopped, 1);
}

static unsigned long features_in(ucontext_t *context)
{
	/* The last bytes of the part that is as fxsave leaves it */
	struct _fpx_sw_bytes *saved = (void *)context->uc_mcontext.fpregs + 512 - sizeof(*saved);

	return saved->magic1 == FP_XSTATE_MAGIC1 ? saved->xstate_bv : 0;
}

/* The first signal, of which the stack of all later ones is made. */
static void born(int signal, siginfo_t *info, void *context)
{
	struct um_process *me = self();
	struct pages *pages = pages_of(me);

	note_signal(&pages->data, signal, info, context);
	fp_features = features_in(context);
	memcpy(pages->first_signal, pages->data.sigstack, sizeof(pages->first_signal));
	on_own_stack((void (*)(void *))wait_for_turn, me);
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		unsigned long long mask;
	} action = {
		.handler = handler,
		.flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO | 0x04000000 /* SA_RESTORER */,
		.restorer = stub_signal_restorer,
	};

	if (!handler)
		action.flags = 0;
	if (stub_syscall4(__NR_rt_sigaction, signal, (unsigned long)&action, 0,
			  sizeof(action.mask)))
		die("a signal's handler was refused\n");
}

/*
 * A system call from outside the kernel's text and the host's vDSO, which lies above
 * all programs, is a program's.
 */
static void trap_programs(void)
{
	unsigned long ip = offsetof(struct seccomp_data, instruction_pointer);
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 4),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, task_size >> 32, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, uml_physmem, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, uml_reserved, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	stub_syscall5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (stub_syscall3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
			  (unsigned long)&program))
		die("a filter of system calls was refused\n");
}

/* All but the kernel's memory. */
static long unmap_programs(unsigned long start, unsigned long end)
{
	long error = 0;

	if (end > task_size)
		end = task_size;
	if (start < uml_physmem && start < end)
		error = stub_syscall2(__NR_munmap, start,
				      (end < uml_physmem ? end : uml_physmem) - start);
	if (start < end_vm)
		start = end_vm;
	if (start < end && !error)
		error = stub_syscall2(__NR_munmap, start, end - start);
	return error;
}

static void __noreturn be_born(struct um_process *me, bool first)
{
	static const int signals[] = {
		SIGSYS, SIGSEGV, SIGBUS, SIGALRM, SIGTRAP, SIGILL, SIGFPE,
	};
	struct stub_data *data = &pages_of(me)->data;
	unsigned long long offset, none = 0;
	int fd = phys_mapping((unsigned long)data - uml_physmem, &offset), i;
	struct {
		void *pointer;
		int flags;
		size_t size;
	} stack = { (void *)STUB_DATA, 0, STUB_DATA_PAGES * UM_KERN_PAGE_SIZE };

	stub_syscall2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL);
	unmap_programs(0, task_size);
	if (stub_syscall6(STUB_MMAP_NR, STUB_DATA, stack.size, PROT_READ | PROT_WRITE,
			  MAP_FIXED | MAP_SHARED, fd, MMAP_OFFSET(offset)) != STUB_DATA)
		die("a stack of signals was refused\n");
	stub_syscall2(__NR_sigaltstack, (unsigned long)&stack, 0);
	stub_syscall2(__NR_arch_prctl, ARCH_SET_GS, 0);
	*(struct um_process **)own_stack = me;
	if (first) {
		for (i = 0; i < ARRAY_SIZE(signals); i++)
			handle(signals[i], stopped);
		handle(SIGUSR2, born);
		trap_programs();
	}
	stub_syscall4(__NR_rt_sigprocmask, SIG_SETMASK, (unsigned long)&none, 0, sizeof(none));
	stub_syscall2(__NR_kill, me->pid, SIGUSR2);
	die("a process of the guest has no signal\n");
}

static void fork_there(void *new)
{
	struct um_process *me = new;
	bool first = here == &main_process;
	long pid = stub_syscall5(__NR_clone, CLONE_FILES | CLONE_FS | SIGCHLD |
				 (first ? 0 : CLONE_PARENT), 0, 0, 0, 0);

	if (pid == 0) {
		me->pid = stub_syscall0(__NR_getpid);
		be_born(me, first);
	}
	me->pid = pid;
	longjmp(kernel_goes_on, 1);
	__builtin_unreachable();
}

static void begin(void)
{
	static const int ignored[] = { SIGCHLD, SIGIO, SIGALRM, SIGWINCH };
	unsigned long long mask = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(ignored); i++)
		mask |= 1ULL << (ignored[i] - 1);
	stub_syscall4(__NR_rt_sigprocmask, SIG_BLOCK, (unsigned long)&mask, 0, sizeof(mask));
	/* The first process ends, and with it all: the kernel may be in another one. */
	handle(SIGTERM, NULL);
	handle(SIGINT, NULL);
	main_process.pid = os_getpid();
	stub_syscall2(__NR_arch_prctl, ARCH_GET_FS, (unsigned long)&kernel_fs);
	has_fsgsbase = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
	own_stack = mmap(NULL, OWN_STACK_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own_stack == MAP_FAILED)
		panic("no stack of its own for a process: %d\n", errno);
}

static struct um_process *new_process(unsigned long (*new_pages)(void))
{
	struct pages *pages = unused_pages ?: (void *)new_pages();
	struct um_process *process;

	if (!own_stack)
		begin();
	unused_pages = pages;
	if (!pages)
		return NULL;
	process = &pages->process;
	process->kernel_unmappings = here->kernel_unmappings;
	if (setjmp(kernel_goes_on) == 0)
		on_own_stack(fork_there, process);
	if (process->pid < 0)
		return NULL;
	unused_pages = NULL;
	process->next = main_process.next;
	main_process.next = process;
	return process;
}

int start_in_place(struct mm_id *id, unsigned long (*new_pages)(void))
{
	struct um_process *process = free_processes;

	if (process)
		free_processes = process->next_free;
	else
		process = new_process(new_pages);
	if (!process)
		return -ENOMEM;
	id->process = process;
	id->pid = process->pid;
	id->stack = (unsigned long)&pages_of(process)->data;
	return 0;
}

void end_in_place(struct mm_id *id)
{
	id->process->next_free = free_processes;
	free_processes = id->process;
}

void end_all_in_place(void)
{
	struct um_process *process;

	enter_main_process();
	for (process = main_process.next; process; process = process->next)
		os_kill_process(process->pid, 1);
}

/* Takes what a program's memory is to be from id's stub_data, as a stub does. */
int map_in_place(struct mm_id *id)
{
	struct stub_data *data = (void *)id->stack;
	int i, count = id->syscall_data_len;
	long done;

	if (count < 0)
		return count;
	enter_process(id);
	id->syscall_data_len = 0;
	for (i = 0; i < count; i++) {
		struct stub_syscall *call = &data->syscall_data[i];
		unsigned long end = call->mem.addr + call->mem.length;

		if (call->syscall == STUB_SYSCALL_MUNMAP)
			done = unmap_programs(call->mem.addr, end);
		else if (call->mem.addr < end_vm && end > uml_physmem)
			done = -ENOMEM;
		else
			done = stub_syscall6(STUB_MMAP_NR, call->mem.addr, call->mem.length,
					     call->mem.prot, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
					     call->mem.fd, call->mem.offset);
		if (done < 0 && done > -4096) {
			data->err = done;
			data->syscall_data_len = i;
			return done;
		}
	}
	return 0;
}

/* For direct_call.S */
unsigned long *direct_gp, direct_stack, go_on_at;
void *direct_fp;

void go_on(unsigned long *gp, void *fp) __noreturn;
void program_called(void) __noreturn;

void program_called(void)
{
	set_fs(kernel_fs);
	in_program = false;
	stops++;
	longjmp(program_stopped, 2);
	__builtin_unreachable();
}

/*
 * As a signal's end does it, for what go_on() cannot: a step of one instruction, a CPU
 * without xsave.
 */
static void __noreturn end_signal(struct mm_id *id, struct uml_pt_regs *regs,
				  int single_stepping)
{
	struct pages *pages = pages_of(id->process);
	unsigned long frame;

	memcpy(pages->data.sigstack, pages->first_signal, sizeof(pages->first_signal));
	if (set_stub_state(regs, &pages->data, single_stepping))
		die("a program's registers were refused\n");
	pages->data.arch_data.sync = 0;
	frame = STUB_DATA + offsetof(struct stub_data, sigstack) +
		pages->data.mctx_offset - offsetof(ucontext_t, uc_mcontext);
	set_fs(regs->gp[HOST_FS_BASE]);
	asm volatile("mov %0, %%rsp\n\tsyscall"
		     : : "r" (frame), "a" (__NR_rt_sigreturn) : "memory");
	__builtin_unreachable();
}

/*
 * Lets the program go on with its registers until it stops. Returns the signal it
 * stopped with, whose state is in its stub_data; if that was none but a direct call,
 * SIGSYS, and regs has the state.
 */
int run_in_place(struct mm_id *id, struct uml_pt_regs *regs, int single_stepping)
{
	struct stub_data *data = (void *)id->stack;
	unsigned long gs = regs->gp[HOST_GS_BASE];

	enter_process(id);
	if (data->arch_data.gs_base != gs)
		stub_syscall2(__NR_arch_prctl, ARCH_SET_GS, gs);
	data->arch_data.gs_base = gs;
	direct_gp = regs->gp;
	direct_fp = regs->fp;
	direct_stack = (unsigned long)__builtin_frame_address(0) - 1024 - sizeof(long);
	switch (setjmp(program_stopped)) {
	case 0:
		break;
	case 1:
		regs->direct = 0;
		return data->signal;
	default:
		regs->direct = 1;
		return SIGSYS;
	}
	in_program = true;
	barrier();
	if (single_stepping || !fp_features)
		end_signal(id, regs, single_stepping);
	regs->gp[HOST_EFLAGS] &= ~TRAP_FLAG;
	set_fs(regs->gp[HOST_FS_BASE]);
	go_on(regs->gp, regs->fp);
}

int spins_in_place(void)
{
	return READ_ONCE(spins);
}
