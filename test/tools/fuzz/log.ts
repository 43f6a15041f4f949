/** Checks that the output of workerd contains no client data and no unexpected event. */
import { secretTag } from "./people.ts";

/** The secrets of requests: keys, tokens and addresses. */
const secrets = [
  new RegExp(secretTag, "i"),
  /stranger/,
  /eyJ[\w-]{8}/,
  /2001:0?db8/i,
  /(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])/,
];

/** Events that these requests are expected to cause, and messages of workerd about requests that it rejects. */
const expected = new Set(["configuration-warning", "dry-run-denied", "origin-unreachable", "forward-request-invalid"]);
const ofPlatform = /connect event|connect\(\) function|WebSocket protocol error/;

export class WorkerdLog {
  #text = "";

  add(text: string): void {
    this.#text += text;
  }

  get lines(): string[] {
    return this.#text.split("\n").filter((line) => line !== "");
  }

  /** The number of lines for each event. */
  get events(): Map<string, number> {
    const events = new Map<string, number>();
    for (const line of this.lines) {
      const event = eventOf(line);
      events.set(event, (events.get(event) ?? 0) + 1);
    }
    return events;
  }

  faults(): string[] {
    const linesWithSecrets = this.lines.filter((line) => {
      // A pseudonym may contain any letters, including those of a message.
      const text = line.replace(/"key":"[\w-]{16}"/, "");
      return secrets.some((secret) => secret.test(text));
    });
    const strange = this.lines.filter((line) => !expected.has(eventOf(line)) && !ofPlatform.test(line));
    return [
      ...linesWithSecrets.map((line) => `the log contains client data: ${line}`),
      ...strange.map((line) => `the log contains an unexpected event: ${line}`),
    ];
  }
}

function eventOf(line: string): string {
  return /^\{"event":"([a-z-]+)"/.exec(line)?.[1] ?? "other";
}
