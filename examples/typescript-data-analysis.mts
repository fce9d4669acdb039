// Data analysis over a folder of yours: the code reads what it may, writes where it may, and each change waits for approval before
// it reaches the disk. typescript-data-analysis.mts FOLDER: a folder with rivers.csv in it (examples/rivers.csv is one).
import { createExecutor, type MountConfig, SyncStates } from 'cloche/executor'

const [folder = '.'] = process.argv.slice(2)

const code = `
import csv, json, os

def analyse(where):
    with open(where + "/rivers.csv") as file:
        rows = list(csv.DictReader(file))
    number = next(k for k in rows[0] if rows[0][k].replace(".", "").isdigit())
    values = sorted(float(r[number]) for r in rows)
    summary = {"rows": len(rows), "column": number, "least": values[0], "most": values[-1], "median": values[len(values) // 2]}
    os.makedirs(where + "/report", exist_ok=True)
    with open(where + "/report/summary.json", "w") as file:
        json.dump(summary, file, indent=2)
    with open(where + "/report/scratch.tmp", "w") as file:
        file.write("left over")
    try:
        open(where + "/rivers.csv", "a").write("forged,1")
    except PermissionError as error:
        print("not permitted:", error.strerror)
    return summary
`

const mount: MountConfig = {
  dirs: { '/data': folder },
  permissions: { default: { read: true, list: true }, rules: [{ pattern: '{report,report/**}', allow: '*' }], exclude: ['.git'] },
  sync: { mode: 'manual' }
}

await using executor = createExecutor()
const { status, result, error, files, stdout } = await executor.execute<Record<string, unknown>>({ language: 'python', code, functionName: 'analyse', args: ['/data'], mount })
if (status !== 'success') throw new Error(`the analysis ended as ${status}: ${error?.message}`)
console.log(result)
console.log(stdout.trim())
for (const { path, operation } of files?.denied ?? []) console.log(`denied: ${operation} of ${path}`)

// Approval, once by looking at the list and once for each file as its turn comes.
const wanted = (files?.created ?? []).filter(({ size }) => size < 65_536)
executor.on('beforeSync', function (change) {
  if (change.path.endsWith('.tmp')) this.result = { state: SyncStates.SKIP, reason: 'a scratch file' }
})
const { synced, skipped, failed } = await executor.syncFiles(wanted, mount, { onError: 'rollback' })
const names = (paths: string[]): string => paths.map((path) => path.split('/').at(-1)).sort().join(', ')
console.log(`written: ${names(synced)}; left out: ${names(skipped)}`)
for (const { path, error } of failed) console.log(`failed: ${path}: ${error.message}`)
