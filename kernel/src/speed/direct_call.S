/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From a program into the kernel and back, without the host (in_place.c). A
 * program's registers are those of its struct uml_pt_regs: gp and fp.
 */
#include <linux/linkage.h>
#include <generated/user_constants.h>

#define GP(number)	((number) * 8)

/* All registers but rax, rcx, r11, rdi, rsp */
.macro OTHER_REGISTERS move
	\move r15, HOST_R15
	\move r14, HOST_R14
	\move r13, HOST_R13
	\move r12, HOST_R12
	\move rbp, HOST_BP
	\move rbx, HOST_BX
	\move r10, HOST_R10
	\move r9, HOST_R9
	\move r8, HOST_R8
	\move rdx, HOST_DX
	\move rsi, HOST_SI
.endm

.macro STORE register, number
	mov	%\register, GP(\number)(%rcx)
.endm

.macro LOAD register, number
	mov	GP(\number)(%rdi), %\register
.endm

	.text

/*
 * Where a program's call of the kernel comes to (direct_calls.c): its return address is
 * on its stack, the number of the system call in eax. Only rcx and r11 are free, as
 * after a system call.
 */
	.globl	direct_call
	.type	direct_call, @function
direct_call:
	mov	direct_gp, %rcx
	mov	%rsp, %r11
	OTHER_REGISTERS STORE
	STORE	rdi, HOST_DI
	STORE	rax, HOST_ORIG_AX
	mov	(%r11), %r15
	STORE	r15, HOST_IP
	STORE	r15, HOST_CX
	lea	8(%r11), %r15
	STORE	r15, HOST_SP
	mov	direct_stack, %rsp
	pushfq
	pop	%r15
	STORE	r15, HOST_EFLAGS
	STORE	r15, HOST_R11
	cld
	mov	direct_fp, %r15
	mov	fp_features, %eax
	mov	fp_features + 4, %edx
	xsave64	(%r15)
	jmp	program_called
	.size	direct_call, . - direct_call

/* go_on(gp, fp): the program goes on with these registers. */
	.globl	go_on
	.type	go_on, @function
go_on:
	mov	fp_features, %eax
	mov	fp_features + 4, %edx
	xrstor64 (%rsi)
	LOAD	rax, HOST_IP
	mov	%rax, go_on_at
	pushq	GP(HOST_EFLAGS)(%rdi)
	popfq
	OTHER_REGISTERS LOAD
	LOAD	r11, HOST_R11
	LOAD	rcx, HOST_CX
	LOAD	rax, HOST_AX
	LOAD	rsp, HOST_SP
	LOAD	rdi, HOST_DI
	jmp	*go_on_at
	.size	go_on, . - go_on

	.section .note.GNU-stack, "", @progbits
