/** How many lines of a log were read, and why others were not. */

/** A line of a log that no format fits. */
export interface UnreadLine {
  /** From 1. */
  readonly line: number;
  readonly reason: string;
}

export interface LogReport {
  /** Lines that gave a request. */
  readonly read: number;
  /** Lines that could not be read; empty lines are not counted. */
  readonly unread: number;
  /** The first of them, at most 100. */
  readonly firstUnread: readonly UnreadLine[];
}

const mostListedLines = 100;

/** Counts the lines of a log. */
export class LineCounts implements LogReport {
  /** The number of the current line. */
  line = 0;
  read = 0;
  unread = 0;
  readonly firstUnread: UnreadLine[] = [];

  skip(reason: string): void {
    if (this.unread++ < mostListedLines) this.firstUnread.push({ line: this.line, reason });
  }
}
