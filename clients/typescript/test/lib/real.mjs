// The real daemon. Tests that need it are skipped without one, and fail with CLOCHE_MUST_WORK=1.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { findDaemon } from 'cloche'

function find () {
  try {
    return { daemon: findDaemon() }
  } catch (thrown) {
    if (process.env.CLOCHE_MUST_WORK === '1') throw thrown
    return { reason: thrown.message }
  }
}

export const { daemon, reason } = find()
/** For the options of a test or suite. */
export const real = { skip: daemon === undefined && `needs cloched: ${reason}` }

export const descriptors = () => readdirSync('/proc/self/fd').length
/** Daemons this process has started. */
export const daemons = () => readdirSync('/proc/self/task').flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, 'utf8').split(' ')).filter(Boolean).map(Number)
  .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('cloched'))
export const isProcess = (pid) => readdirSync('/proc').includes(String(pid))

export async function until (condition, what, ms = 40_000) {
  const end = Date.now() + ms
  while (!await condition()) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await sleep(10)
  }
}
