/** The operator of this tab. A token stays in this tab only; Cloudflare Access identifies operators without one. */
import { signal } from "@preact/signals";
import type { Operator, Right } from "../api/answers.ts";
import { ApiProblem, call, ConnectionLost, errorOf, refusal, token } from "../api/client.ts";

type Session =
  /** The playground asks for no operator, so that its visitors cause no refused call. */
  | { readonly kind: "visitor" }
  | { readonly kind: "checking" }
  /** `problem` says why the last attempt failed; null before the first. */
  | { readonly kind: "signed-out"; readonly problem: string | null }
  | { readonly kind: "signed-in"; readonly operator: Operator };

export const session = signal<Session>({ kind: "checking" });

const storageKey = "headgate-token";

/** Whether the operator may do this. The server decides; this only hides what it would refuse. */
export const may = (right: Right): boolean =>
  session.value.kind === "signed-in" && session.value.operator.may.includes(right);

/** A field of a request can have no other characters. */
const tokenForm = /^[\x21-\x7e]+$/;

/** Signs in with the token of the URL, of this tab, or with Access. Without a token, a public view asks for no operator. */
export async function startSession({ isPublic }: { readonly isPublic: boolean }): Promise<void> {
  const given = takeTokenOfUrl() ?? sessionStorage.getItem(storageKey);
  if (given === null && isPublic) {
    session.value = { kind: "visitor" };
    return;
  }
  session.value = { kind: "checking" };
  if (given === null) {
    await signInByAccess();
    return;
  }
  const problem = await signIn(given);
  if (problem !== null) session.value = { kind: "signed-out", problem };
}

async function signInByAccess(): Promise<void> {
  try {
    begin(await readOperator());
  } catch (error) {
    session.value = { kind: "signed-out", problem: isUnauthorized(error) ? null : textOf(error) };
  }
}

/** Returns the problem; null after success. */
export async function signIn(text: string): Promise<string | null> {
  const accepted = await acceptToken(text);
  if (typeof accepted === "string") return accepted;
  token.value = accepted.token;
  begin(accepted.operator);
  return null;
}

interface AcceptedToken {
  readonly token: string;
  readonly operator: Operator;
}

/** Keeps a token in this tab if the Worker accepts it, and forgets a refused one. Returns the problem if it is not accepted. */
export async function acceptToken(text: string): Promise<AcceptedToken | string> {
  const given = text.trim();
  if (!tokenForm.test(given)) return "A token has visible ASCII characters only.";
  try {
    const operator = await readOperator(given);
    sessionStorage.setItem(storageKey, given);
    return { token: given, operator };
  } catch (error) {
    // Each call with it counts against the address, so loading the page again must not repeat it.
    if (isUnauthorized(error) && sessionStorage.getItem(storageKey) === given) {
      sessionStorage.removeItem(storageKey);
    }
    return textOf(error);
  }
}

export function signOut(): void {
  sessionStorage.removeItem(storageKey);
  token.value = null;
  refusal.value = null;
  session.value = { kind: "signed-out", problem: null };
}

const readOperator = (checkedToken?: string): Promise<Operator> => call<Operator>("GET", "operator", { checkedToken });

function begin(operator: Operator): void {
  refusal.value = null;
  session.value = { kind: "signed-in", operator };
}

const isUnauthorized = (error: unknown): boolean => error instanceof ApiProblem && error.status === 401;

function textOf(error: unknown): string {
  if (error instanceof ConnectionLost) return `${error.message} Try again when it runs.`;
  return errorOf(error).message;
}

/** The fragment is removed at once, so that no token stays in the address bar or the history. */
export function takeTokenOfUrl(): string | null {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) history.replaceState(null, "", location.pathname + location.search);
  return given;
}
