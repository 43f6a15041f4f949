/** Lines in the common or combined log format. */
import type { LogFieldName, LogLine } from "./log-line.ts";

/**
 * The host, client, user and time. Some servers write the virtual host and its port first. A host with colons must be
 * in brackets, because an IPv6 address can end like a port. The name of a user may contain brackets, so only brackets
 * around a day contain the time. The length of the time is bounded, so that a long line with many brackets takes linear
 * time.
 */
const commonLog = /^(?:([^\s:]+|\[[^\s\]]+\]):\d+ (?!- ))?(\S+) \S+ (.*?(?=\[\d\d\/)|[^[]*)\[([^\]]{0,64})\]/;

/**
 * The request, the status, the size, and in the combined format the referrer and the user agent. The format `main` of nginx
 * adds X-Forwarded-For.
 */
const restOfLog =
  /^ "((?:[^"\\]|\\.)*)" (\S+) (\S+)(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"(?: "((?:[^"\\]|\\.)*)")?)?/;

/** A line in the common or combined log format. Its fields have the names that nginx gives them. */
export class CommonLine implements LogLine {
  readonly #line: string;
  readonly #head: RegExpExecArray;
  #rest: RegExpExecArray | null | undefined;

  private constructor(line: string, head: RegExpExecArray) {
    this.#line = line;
    this.#head = head;
  }

  static parse(line: string): CommonLine | null {
    const head = commonLog.exec(line);
    return head === null ? null : new CommonLine(line, head);
  }

  /** Whether a quoted request follows the time, as in nearly every line of these formats. */
  get hasRequest(): boolean {
    return this.#line.startsWith(' "', this.#head[0].length);
  }

  get names(): readonly string[] {
    return textFields.filter((text) => this.valueOf({ text, path: [] }) !== undefined);
  }

  valueOf({ text }: LogFieldName): string | undefined {
    switch (text) {
      case "host":
        return this.#head[1];
      case "remote_addr":
        return this.#head[2];
      case "remote_user":
        return this.#head[3]?.trim();
      case "time_local":
        return this.#head[4];
      case "request":
        return this.#restField(1);
      case "status":
        return this.#restField(2);
      case "body_bytes_sent":
        return this.#restField(3);
      case "http_referer":
        return this.#restField(4);
      case "http_user_agent":
        return this.#restField(5);
      case "http_x_forwarded_for":
        return this.#restField(6);
      default:
        return undefined;
    }
  }

  #restField(group: number): string | undefined {
    this.#rest ??= restOfLog.exec(this.#line.slice(this.#head[0].length));
    return this.#rest?.[group];
  }
}

const textFields = [
  "host",
  "remote_addr",
  "remote_user",
  "time_local",
  "request",
  "status",
  "body_bytes_sent",
  "http_referer",
  "http_user_agent",
  "http_x_forwarded_for",
];
