/** The live tail: tickets, the entries that WebSockets receive, and how long isolates send beats every second. */
import { describe, expect, it } from "vitest";
import { Tail, type TailSocket } from "../../../src/control/object/tail.ts";
import type { TailMessage } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { denial } from "./batches.ts";

class FakeSocket implements TailSocket {
  readonly messages: TailMessage[] = [];
  closed: number | undefined;
  isGone = false;

  send(message: string): void {
    if (this.isGone) throw new TypeError("the WebSocket is closed");
    this.messages.push(JSON.parse(message) as TailMessage);
  }

  close(code?: number): void {
    if (this.closed !== undefined) throw new TypeError("the WebSocket is closed");
    this.closed = code;
  }

  get entries(): number {
    return this.messages.reduce((sum, { entries }) => sum + entries.length, 0);
  }
}

function tailOf(storage = new MemorySql()) {
  const sockets: FakeSocket[] = [];
  const host = {
    sockets: () => sockets,
    accept: () => {
      sockets.push(new FakeSocket());
      return new Response("opened");
    },
  };
  const tail = new Tail(storage.sql, host);
  const open = (ticket: string, nowMs: number): number =>
    tail.open(
      new Request(`https://control-plane/tail?ticket=${ticket}`, {
        headers: { Upgrade: "WebSocket" },
      }),
      nowMs,
    ).status;
  return { storage, tail, sockets, open };
}

describe("a ticket", () => {
  it("a ticket opens one WebSocket", () => {
    const { tail, open, sockets } = tailOf();
    const { ticket, expiresAtMs } = tail.ticket(1_000);
    expect(ticket).toMatch(/^[0-9a-f]{32}$/);
    expect(expiresAtMs).toBe(31_000);
    expect([open(ticket, 30_999), open(ticket, 30_999), sockets.length]).toEqual([200, 403, 1]);
  });

  it("a ticket is valid for 30 s", () => {
    const { tail, open } = tailOf();
    expect(open(tail.ticket(1_000).ticket, 31_000)).toBe(403);
  });

  it("a ticket is valid after the object has hibernated", () => {
    const { tail, storage } = tailOf();
    const { ticket } = tail.ticket(0);
    expect(tailOf(storage).open(ticket, 20_000)).toBe(200);
  });

  it("at most 100 tickets are open, and a new one replaces the oldest", () => {
    const { tail, open, storage } = tailOf();
    const tickets = Array.from({ length: 120 }, (_, index) => tail.ticket(index).ticket);
    expect(storage.sql.exec("SELECT * FROM tickets").toArray()).toHaveLength(100);
    expect([open(tickets[19] ?? "", 200), open(tickets[20] ?? "", 200)]).toEqual([403, 200]);
    tail.ticket(60_000);
    expect(storage.sql.exec("SELECT * FROM tickets").toArray()).toHaveLength(1);
  });

  it.for(["", "unknown", "%00"])("the ticket %j is refused", (ticket) => {
    expect(tailOf().open(ticket, 0)).toBe(403);
  });
});

it("a request for the tail without an upgrade gets 426, and its ticket stays valid", () => {
  const { tail, open } = tailOf();
  const { ticket } = tail.ticket(0);
  const response = tail.open(new Request(`https://control-plane/?ticket=${ticket}`), 0);
  expect([response.status, open(ticket, 0)]).toEqual([426, 200]);
});

it("at most 50 WebSockets of the tail are open", () => {
  const { tail, open } = tailOf();
  const statuses = Array.from({ length: 51 }, () => open(tail.ticket(0).ticket, 0));
  expect(statuses.filter((status) => status === 200)).toHaveLength(50);
  expect(statuses.at(-1)).toBe(503);
});

it("while 50 WebSockets are open, an invalid ticket gets 403, and a valid ticket gets 503 and stays valid", () => {
  const { tail, sockets, open } = tailOf();
  for (let index = 0; index < 50; index++) open(tail.ticket(0).ticket, 0);
  const { ticket } = tail.ticket(0);
  expect([open("unknown", 0), open(ticket, 0)]).toEqual([403, 503]);
  sockets.pop();
  expect(open(ticket, 0)).toBe(200);
});

describe("the entries", () => {
  it("tail entries reach every WebSocket with the time of the denial", () => {
    const { tail, sockets, open } = tailOf();
    open(tail.ticket(0).ticket, 0);
    open(tail.ticket(0).ticket, 0);
    tail.send([denial({ agoMs: 400, sealed: "sealed" })], 10_000);
    const { agoMs: _, ...entry } = denial({ sealed: "sealed" });
    for (const socket of sockets) {
      expect(socket.messages).toEqual([{ entries: [{ ...entry, atMs: 9_600 }] }]);
    }
  });

  it("at most 200 tail entries are sent a second", () => {
    const { tail, sockets, open } = tailOf();
    open(tail.ticket(0).ticket, 0);
    for (let isolate = 0; isolate < 30; isolate++) {
      tail.send(
        Array.from({ length: 20 }, () => denial()),
        5_000 + isolate,
      );
    }
    expect(sockets[0]?.entries).toBe(200);
    tail.send([denial()], 6_000);
    expect(sockets[0]?.entries).toBe(201);
  });

  it("a beat without tail entries sends no message", () => {
    const { tail, sockets, open } = tailOf();
    open(tail.ticket(0).ticket, 0);
    tail.send([], 0);
    expect(sockets[0]?.messages).toEqual([]);
  });

  it("tail entries reach the other WebSockets when one WebSocket fails", () => {
    const { tail, sockets, open } = tailOf();
    open(tail.ticket(0).ticket, 0);
    open(tail.ticket(0).ticket, 0);
    const [gone = new FakeSocket(), other] = sockets;
    gone.isGone = true;
    tail.send([denial()], 0);
    expect([gone.closed, other?.entries]).toEqual([1_011, 1]);
  });
});

describe("beats come every second", () => {
  it("beats are due every second while a WebSocket of the tail is open", () => {
    const { tail, sockets, open } = tailOf();
    expect([tail.isTailed, tail.isWatched(0)]).toEqual([false, false]);
    open(tail.ticket(0).ticket, 0);
    expect([tail.isTailed, tail.isWatched(0)]).toEqual([true, true]);
    sockets.pop();
    expect([tail.isTailed, tail.isWatched(0)]).toEqual([false, false]);
  });

  it("beats are due every second for 15 s after a console has read", () => {
    const { tail } = tailOf();
    tail.watch(1_000);
    expect([tail.isWatched(15_999), tail.isWatched(16_000), tail.isTailed]).toEqual([true, false, false]);
  });
});

describe("a WebSocket", () => {
  it.for<[number, number]>([
    [1_000, 1_000],
    [1_005, 1_000],
    [1_006, 1_000],
    [3_001, 3_001],
  ])("a WebSocket that closes with %d is closed with %d", ([code, expected]) => {
    const { tail } = tailOf();
    const socket = new FakeSocket();
    tail.closed(socket, code);
    tail.closed(socket, code);
    expect(socket.closed).toBe(expected);
  });

  it("a WebSocket that sends a message to the tail is closed", () => {
    const { tail } = tailOf();
    const socket = new FakeSocket();
    tail.received(socket);
    expect(socket.closed).toBe(1_008);
  });
});
