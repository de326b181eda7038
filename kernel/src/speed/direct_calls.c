// SPDX-License-Identifier: GPL-2.0
/*
 * System calls without a signal, where the kernel runs in place (in_place.c).
 *
 * A program's instruction for a system call is a signal on the host. Those of the C
 * library are replaced when they come for the first time, by a call of the kernel:
 * in the page of the file, so for all programs at once. What is replaced are seven
 * bytes, the instruction and the one before it, which the call does first (a thunk):
 *
 *	mov  $NUMBER, %eax		call *places[NUMBER]
 *	syscall
 *
 * The call leaves its return address below the program's stack. So it is only done
 * where nothing is kept there: at the beginning of a function that does nothing but
 * the system call, and in the functions through which all calls go that can be
 * cancelled. Everything else stays a signal.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/pgtable.h>
#include <in_place.h>

#define SITE_SIZE	7
#define BEFORE_SIZE	5
#define NUMBERS		512

/* Any function that only makes a call: its number, and what follows the call. */
static const u8 move_number = 0xb8;
static const u8 fourth_argument[] = { 0x49, 0x89, 0xca };	/* mov %rcx, %r10 */
static const u8 with_error[] = { 0x48, 0x3d };			/* cmp $-4096 or -4095, %rax */

/* glibc's functions for calls that can be cancelled, with one thread and with more. */
enum { ONE_THREAD, THREADS };
static const struct {
	u8 before[BEFORE_SIZE];
	u8 instead[BEFORE_SIZE];	/* with the return address on the stack */
	u8 after[2];
	u8 after_size;
} known[] = {
	[ONE_THREAD] = {
		{ 0x48, 0x8b, 0x44, 0x24, 0x10 },	/* mov 0x10(%rsp), %rax */
		{ 0x48, 0x8b, 0x44, 0x24, 0x18 },
		{ 0x5b, 0xc3 }, 2,			/* pop %rbx; ret */
	},
	[THREADS] = {
		{ 0x4c, 0x89, 0x5c, 0x24, 0x08 },	/* mov %r11, 0x8(%rsp) */
		{ 0x4c, 0x89, 0x5c, 0x24, 0x10 },
		{ 0xc3 }, 1,				/* ret */
	},
};

/* Thunks, and where the calls find them. Both are below 2 GB, as the kernel is. */
static u8 thunks[NUMBERS + ARRAY_SIZE(known)][16] __aligned(16);
static u8 *places[NUMBERS + ARRAY_SIZE(known)];

static void place_thunk(unsigned int number, const u8 *first)
{
	u8 *thunk = thunks[number];
	s32 distance = (long)direct_call - (long)(thunk + BEFORE_SIZE + 5);

	memcpy(thunk, first, BEFORE_SIZE);
	thunk[BEFORE_SIZE] = 0xe9;	/* jmp */
	memcpy(thunk + BEFORE_SIZE + 1, &distance, sizeof(distance));
	places[number] = thunk;
}

/* A function begins here, or after a move of the fourth argument. */
static bool begins_function(unsigned long address, const u8 *code)
{
	if (address % 16 == sizeof(fourth_argument) &&
	    !memcmp(code - sizeof(fourth_argument), fourth_argument, sizeof(fourth_argument)))
		address -= sizeof(fourth_argument);
	return address % 16 == 0;
}

/* The number of the thunk for the instructions at `address`, or -1. */
static int thunk_for(unsigned long address, const u8 *code, unsigned int number)
{
	const u8 *after = code + SITE_SIZE;
	int i;

	if (code[0] == move_number && number < NUMBERS &&
	    !memcmp(code + 1, &number, sizeof(number)) &&
	    !memcmp(after, with_error, sizeof(with_error)) &&
	    begins_function(address, code))
		return number;
	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (!memcmp(code, known[i].before, BEFORE_SIZE) &&
		    !memcmp(after, known[i].after, known[i].after_size))
			return NUMBERS + i;
	return -1;
}

/* After a signal for a system call: replaces it if it can be. */
void make_direct(struct uml_pt_regs *regs)
{
	unsigned long address = UPT_IP(regs) - SITE_SIZE;
	unsigned long offset = address & ~PAGE_MASK;
	struct vm_area_struct *vma;
	u8 call[SITE_SIZE] = { 0xff, 0x14, 0x25 };	/* call *place */
	pte_t *pte;
	u8 *code;
	u32 place;
	int thunk, i;

	if (!fp_features)
		return;
	/* All that is looked at is on one page, and that is the file's. */
	if (offset < sizeof(fourth_argument) || offset > PAGE_SIZE - SITE_SIZE - sizeof(with_error))
		return;
	pte = virt_to_pte(current->mm, address);
	if (!pte || !pte_present(*pte) || PageAnon(pte_page(*pte)))
		return;
	code = page_address(pte_page(*pte)) + offset;
	thunk = thunk_for(address, code, regs->gp[HOST_ORIG_AX]);
	if (thunk < 0)
		return;
	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, address);
	if (!vma || !vma->vm_file || (vma->vm_flags & (VM_SHARED | VM_WRITE)))
		thunk = -1;
	mmap_read_unlock(current->mm);
	if (thunk < 0)
		return;

	/* As the call would have left it: this one may have to be made again (restart_direct). */
	if (put_user(UPT_IP(regs), (unsigned long __user *)UPT_SP(regs) - 1))
		return;
	regs->direct = 1;
	if (!places[thunk])
		place_thunk(thunk, thunk < NUMBERS ? code : known[thunk - NUMBERS].instead);
	place = (unsigned long)&places[thunk];
	memcpy(call + 3, &place, sizeof(place));
	memcpy(code, call, SITE_SIZE);
	/* The instructions are new. */
	asm volatile("cpuid" : "=a" (i) : "0" (0) : "ebx", "ecx", "edx", "memory");
}

/*
 * After a signal, before the system call that it stopped: that is to come again,
 * with the number that is in %rax then. As a call of its own it would be made with
 * the first one, but in the function for more threads, which %rax comes to with it.
 * That one has to be in the function: there glibc sees that it can be cancelled.
 */
void repeat_syscall(struct uml_pt_regs *regs)
{
	unsigned long __user *stack = (unsigned long __user *)UPT_SP(regs);
	u32 place = 0;

	if (!regs->direct) {
		UPT_IP(regs) -= 2;
		return;
	}
	regs->direct = 0;
	if (!get_user(place, (u32 __user *)UPT_IP(regs) - 1) &&
	    place == (unsigned long)&places[NUMBERS + THREADS] &&
	    !get_user(UPT_R11(regs), stack + 1)) {
		UPT_IP(regs) -= SITE_SIZE;
		return;
	}
	UPT_SP(regs) = (unsigned long)(stack - 1);	/* its return address is still there */
	UPT_IP(regs) = vdso_again();
}
