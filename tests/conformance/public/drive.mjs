// Drive: what does the suite in this folder say of the cache at this address?
//
//   node drive.mjs FOLDER BASE [ID...]
//
// Prints {tests: [{id, group, kind, needs}], results: {id: true | [kind of failure, words]}}, of all tests or of these alone.
// Knows both layouts there are: the release has its engine at the top and takes a fetch, later states have it in test-engine/.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [folder, base, ...wanted] = process.argv.slice(2)
const root = resolve(folder)
const load = (...path) => import(pathToFileURL(join(root, ...path)))
const engine = existsSync(join(root, 'test-engine')) ? ['test-engine'] : []

const { runTests, getResults } = await load(...engine, 'client', 'runner.mjs')
const groups = [...(await load('tests', 'index.mjs')).default]
if (existsSync(join(root, 'tests', 'surrogate-control.mjs'))) {
  groups.push((await load('tests', 'surrogate-control.mjs')).default)
}

const tests = groups.flatMap(group => group.tests.filter(test => !test.browser_only).map(test => (
  { id: test.id, group: group.id, kind: test.kind || 'required', needs: test.depends_on || [] }
)))
const chosen = wanted.length === 0
  ? groups
  : groups.map(group => ({ ...group, tests: group.tests.filter(test => wanted.includes(test.id)) }))

if (engine.length > 0) {
  await runTests(chosen, false, base)
} else {
  await runTests(chosen, createRequire(join(root, 'package.json'))('node-fetch'), false, base)
}
process.stdout.write(JSON.stringify({ tests, results: getResults() }))
