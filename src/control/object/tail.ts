/**
 * The live tail: WebSockets that receive sampled denials. The platform keeps them open while the object hibernates, so they cost nothing
 * between beats. Browsers cannot set header fields on a WebSocket, so a single-use ticket in the URL opens it.
 */
import type { TailEntry, TailMessage } from "../protocol.ts";
import { type Sql, numberOf } from "./storage.ts";

const ticketMs = 30_000;
/** How long a read of the statistics keeps beats coming every second. */
const watchedMs = 15_000;
const mostSockets = 50;
const mostTickets = 100;
/** The most entries sent in one second of the clock. The tail is a sample. */
const mostEntriesASecond = 200;

export interface TailSocket {
  send(message: string): void;
  close(code?: number, reason?: string): void;
}

/** The open WebSockets, as the platform keeps them. */
export interface TailHost {
  sockets(): readonly TailSocket[];
  /** Opens a WebSocket. Returns the response with its other end. */
  accept(): Response;
}

/** WebSockets that survive hibernation. The platform answers "ping" with "pong" without waking the object. */
export function hibernatingSockets(ctx: DurableObjectState): TailHost {
  ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  return {
    sockets: () => ctx.getWebSockets(),
    accept: () => {
      const { 0: client, 1: server } = new WebSocketPair();
      ctx.acceptWebSocket(server);
      return new Response(null, { status: 101, webSocket: client });
    },
  };
}

export class Tail {
  readonly #sql: Sql;
  readonly #host: TailHost;
  #watchedUntilMs = 0;
  #second = 0;
  #sentInSecond = 0;

  constructor(sql: Sql, host: TailHost) {
    this.#sql = sql;
    this.#host = host;
    sql.exec("CREATE TABLE IF NOT EXISTS tickets (ticket TEXT PRIMARY KEY, expires INTEGER NOT NULL) WITHOUT ROWID");
  }

  /** A ticket for one WebSocket. It is stored, because the object may hibernate before the WebSocket is opened. */
  ticket(nowMs: number): { readonly ticket: string; readonly expiresAtMs: number } {
    const ticket = crypto.randomUUID().replaceAll("-", "");
    const expiresAtMs = nowMs + ticketMs;
    this.#sql.exec("DELETE FROM tickets WHERE expires <= ?", nowMs);
    this.#sql.exec(
      "DELETE FROM tickets WHERE ticket IN (SELECT ticket FROM tickets ORDER BY expires DESC LIMIT -1 OFFSET ?)",
      mostTickets - 1,
    );
    this.#sql.exec("INSERT INTO tickets (ticket, expires) VALUES (?, ?)", ticket, expiresAtMs);
    return { ticket, expiresAtMs };
  }

  /** Answers the request that opens a WebSocket: 101, or a status with a text. */
  open(request: Request, nowMs: number): Response {
    if (request.headers.get("Upgrade")?.toLowerCase() !== "websocket") {
      return new Response("expected a WebSocket", {
        status: 426,
        headers: { Upgrade: "websocket", Connection: "Upgrade" },
      });
    }
    const ticket = new URL(request.url).searchParams.get("ticket") ?? "";
    if (!this.#isValid(ticket, nowMs)) {
      return new Response("the ticket is unknown, used or expired", { status: 403 });
    }
    if (this.#host.sockets().length >= mostSockets) {
      return new Response(`at most ${mostSockets} tails can be open`, { status: 503 });
    }
    // A ticket is valid once.
    this.#sql.exec("DELETE FROM tickets WHERE ticket = ?", ticket);
    return this.#host.accept();
  }

  /** Notes that an operator reads the statistics. */
  watch(nowMs: number): void {
    this.#watchedUntilMs = nowMs + watchedMs;
  }

  get isTailed(): boolean {
    return this.#host.sockets().length > 0;
  }

  isWatched(nowMs: number): boolean {
    return nowMs < this.#watchedUntilMs || this.isTailed;
  }

  send(entries: readonly TailEntry[], nowMs: number): void {
    const sockets = entries.length === 0 ? [] : this.#host.sockets();
    if (sockets.length === 0) return;
    const second = Math.floor(nowMs / 1_000);
    if (second !== this.#second) this.#sentInSecond = 0;
    this.#second = second;
    const sent = entries.slice(0, mostEntriesASecond - this.#sentInSecond);
    this.#sentInSecond += sent.length;
    if (sent.length === 0) return;
    const message: TailMessage = {
      entries: sent.map(({ agoMs, ...entry }) => ({ atMs: nowMs - agoMs, ...entry })),
    };
    const text = JSON.stringify(message);
    for (const socket of sockets) sendTo(socket, text);
  }

  /** Completes the close handshake that the other end began. */
  closed(socket: TailSocket, code: number): void {
    // 1005 and 1006 state that no code was received. They cannot be sent.
    const isSendable = code === 1_000 || (code >= 3_000 && code <= 4_999);
    closeWith(socket, isSendable ? code : 1_000);
  }

  /** The tail accepts no messages: the platform answers pings before the object sees them. */
  received(socket: TailSocket): void {
    closeWith(socket, 1_008, "the tail accepts no messages");
  }

  #isValid(ticket: string, nowMs: number): boolean {
    return numberOf(this.#sql, "SELECT 1 FROM tickets WHERE ticket = ? AND expires > ?", ticket, nowMs) !== null;
  }
}

/** The other end may have gone without a close. */
function sendTo(socket: TailSocket, text: string): void {
  try {
    socket.send(text);
  } catch {
    closeWith(socket, 1_011);
  }
}

function closeWith(socket: TailSocket, code: number, reason?: string): void {
  try {
    socket.close(code, reason);
  } catch {
    // It is closed already.
  }
}
