// Write a file of Memento through the real Prisma client, as the app does: lines of JSON in, lines of JSON out.
// {"op": "put", "id", "data"}, {"op": "row", "id"}, {"op": "remove", "id"}, {"op": "all"},
// {"op": "race", "ids", "edits"}: adds a line to one of these notes, so many times, and reads all notes after each.
// {"op": "hold", "id", "seconds", "hold", "gap"}: changes a note again and again, keeps the lock for `hold` milliseconds each
// time, leaves it for `gap`, and tells when it took and had left it (milliseconds of the clock).
import { createInterface } from 'node:readline'
import { PrismaLibSQL } from '@prisma/adapter-libsql'
import { PrismaClient } from './client/client.js'

const [path, timestampFormat] = process.argv.slice(2)
const options = timestampFormat === 'integer' ? { timestampFormat: 'unixepoch-ms' } : {}
const prisma = new PrismaClient({ adapter: new PrismaLibSQL({ url: `file:${path}` }, options) })

// The app's usual driver waits five seconds for a lock. This one does not by itself, and forgets it with each transaction.
const waiting = () => prisma.$queryRawUnsafe('PRAGMA busy_timeout = 5000')

async function addLine(id, line) {
  for (;;) {
    await waiting()
    const note = await prisma.note.findUniqueOrThrow({ where: { id } })
    const lines = note.content.split('\n')
    lines.splice(Math.floor(Math.random() * lines.length), 0, line)
    const where = { id, content: note.content }
    await waiting()
    const { count } = await prisma.note.updateMany({ where, data: { content: lines.join('\n') } })
    if (count === 1) return
  }
}

async function race(ids, edits) {
  const lines = []
  for (let number = 0; number < edits; number++) {
    const line = `app ${number}`
    await addLine(ids[Math.floor(Math.random() * ids.length)], line)
    lines.push(line)
    await waiting()
    for (const note of await prisma.note.findMany({ orderBy: { updatedAt: 'desc' } })) {
      if (!(note.updatedAt instanceof Date) || typeof note.isPinned !== 'boolean') throw new Error('a row')
      for (const list of [note.labels, note.checkItems]) if (list !== null) JSON.parse(list)
    }
  }
  return lines
}

const now = () => performance.timeOrigin + performance.now()
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds))

async function holdInPieces(id, seconds, hold, gap) {
  const pieces = []
  for (const end = now() + seconds * 1000; now() < end; await pause(gap)) {
    const data = { content: `the app's ${pieces.length}\n` }
    let took
    await prisma.$transaction(async (tx) => {
      await tx.$queryRawUnsafe('PRAGMA busy_timeout = 5000')
      await tx.note.updateMany({ where: { id }, data })
      took = now()
      await pause(hold)
    })
    pieces.push([took, now()])
  }
  return pieces
}

const actions = {
  put: ({ id, data }) => prisma.note.upsert({ where: { id }, create: { id, ...data }, update: data }),
  row: ({ id }) => prisma.note.findUnique({ where: { id } }),
  remove: ({ id }) => prisma.note.delete({ where: { id } }),
  all: () => prisma.note.findMany({ orderBy: [{ isPinned: 'desc' }, { order: 'asc' }, { updatedAt: 'desc' }] }),
  race: ({ ids, edits }) => race(ids, edits),
  hold: ({ id, seconds, hold, gap }) => holdInPieces(id, seconds, hold, gap),
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  try {
    await waiting()
    console.log(JSON.stringify({ answer: await actions[asked.op](asked) }))
  } catch (error) {
    console.log(JSON.stringify({ error: `${error.code ?? ''} ${error.message.slice(-200)}` }))
  }
}
