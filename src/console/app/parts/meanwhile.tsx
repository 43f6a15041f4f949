/** The changes that were made while a dialog was open. */
import type { ComponentChildren } from "preact";
import type { AuditEntry } from "../api/answers.ts";
import { changeText } from "./change-text.ts";

interface MeanwhileProps {
  readonly entries: readonly AuditEntry[];
  /** The sentence above the changes. */
  readonly intro: string;
  /** Shown below the changes. */
  readonly children?: ComponentChildren;
}

/** The status exists before the first change, so that screen readers announce it. */
export const Meanwhile = ({ entries, intro, children }: MeanwhileProps) => (
  <div role="status">
    {entries.length > 0 && (
      <div class="warning-list">
        <p>{intro}</p>
        <ul>
          {entries.map((entry) => (
            <li key={entry.seq}>
              {entry.actor} {changeText(entry)}
            </li>
          ))}
        </ul>
        {children}
      </div>
    )}
  </div>
);
