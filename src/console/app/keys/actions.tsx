/** The actions on a key. */
import { may } from "../shell/session.ts";
import type { Opened } from "./key-state.ts";

const actions = [
  ["boost", "Boost …"],
  ["allow", "Allow without charge …"],
  ["block", "Block …"],
  ["reset", "Reset usage …"],
] as const;

export const Actions = ({ onOpen }: { readonly onOpen: (opened: Opened) => void }) => (
  <section class="card" aria-label="Actions">
    <h2>Actions</h2>
    {may("write") ? (
      <div class="row">
        {actions.map(([kind, label]) => (
          <button key={kind} type="button" onClick={() => onOpen({ kind })}>
            {label}
          </button>
        ))}
      </div>
    ) : (
      <p class="hint">Your token can only read. Changes need the right “write”.</p>
    )}
  </section>
);
