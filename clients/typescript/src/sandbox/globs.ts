// Globs with the sandbox's rules: one without a slash matches names at any depth, and everything
// below a matching name matches too.
import { globTest } from '../executor/glob.js'
import { invalid } from './translate.js'

const EXCLUDED = ['.git', 'node_modules', '.DS_Store']

const testsOf = (globs: readonly string[]): Array<(path: string) => boolean> =>
  globs.map((glob) => globTest(glob.includes('/') ? glob.replace(/^\//, '') : `**/${glob}`))

/** Every leading part of a path: `a`, `a/b`, `a/b/c`. */
const parts = (path: string): string[] => path.split('/').map((_, i, names) => names.slice(0, i + 1).join('/'))

export function matches (include: readonly string[] | undefined, exclude: readonly string[] | undefined): (path: string) => boolean {
  if (include !== undefined && exclude !== undefined) throw invalid('include and exclude are both given: one of them is to be')
  const tests = testsOf(include ?? exclude ?? EXCLUDED)
  const isNamed = (path: string): boolean => parts(path).some((part) => tests.some((test) => test(part)))
  return include === undefined ? (path) => !isNamed(path) : isNamed
}
