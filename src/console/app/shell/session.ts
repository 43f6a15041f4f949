/** The operator of this tab. A token stays in this tab only; Cloudflare Access identifies operators without one. */
import { computed, signal } from "@preact/signals";
import type { OperatorView, AdminRight } from "../../../admin/wire.ts";
import { ApiProblem, call, ConnectionLost, errorOf, refusal, token } from "../api/client.ts";

type Session =
  /** The playground asks for no operator, so that its visitors cause no refused call. */
  | { readonly kind: "visitor" }
  /** `token` is the token that is checked; null with Access. */
  | { readonly kind: "checking"; readonly token: string | null }
  /** `problem` says why the last attempt failed; null before the first. */
  | { readonly kind: "signed-out"; readonly problem: string | null }
  | { readonly kind: "signed-in"; readonly operator: OperatorView };

export const session = signal<Session>({ kind: "checking", token: null });

const storageKey = "headgate-token";

/** Null before sign-in. */
export const operator = computed(() => (session.value.kind === "signed-in" ? session.value.operator : null));

/** Whether the operator has this right. The page only hides what the server would refuse. */
export const may = (right: AdminRight): boolean => operator.value?.may.includes(right) === true;

/** The characters that a header field of a request can have. */
const tokenForm = /^[\x21-\x7e]+$/;

/** Signs in with the token of the URL, of this tab, or with Access. Without a token, a public view asks for no operator. */
export async function startSession({ isPublic }: { readonly isPublic: boolean }): Promise<void> {
  const given = takeTokenOfUrl() ?? sessionStorage.getItem(storageKey);
  if (given === null && isPublic) {
    session.value = { kind: "visitor" };
    return;
  }
  session.value = { kind: "checking", token: given };
  try {
    if (given === null) begin(await readOperator());
    else await signIn(given);
  } catch (error) {
    const isFirstAttempt = given === null && isUnauthorized(error);
    session.value = { kind: "signed-out", problem: isFirstAttempt ? null : errorOf(error).message };
  }
}

/** @throws Error with the reason */
export async function signIn(text: string): Promise<void> {
  const accepted = await acceptToken(text);
  token.value = accepted.token;
  begin(accepted.operator);
}

/**
 * Keeps a token in this tab if the Worker accepts it, and forgets a refused one.
 * @throws Error with the reason
 */
async function acceptToken(text: string): Promise<{ readonly token: string; readonly operator: OperatorView }> {
  const given = text.trim();
  if (!tokenForm.test(given)) throw new Error("A token has visible ASCII characters only.");
  try {
    const accepted = { token: given, operator: await readOperator(given) };
    sessionStorage.setItem(storageKey, given);
    return accepted;
  } catch (error) {
    // Forgets the refused token, so that loading the page again does not send it: each refusal counts against the
    // address.
    if (isUnauthorized(error) && sessionStorage.getItem(storageKey) === given) {
      sessionStorage.removeItem(storageKey);
    }
    throw error;
  }
}

export function signOut(): void {
  sessionStorage.removeItem(storageKey);
  token.value = null;
  refusal.value = null;
  session.value = { kind: "signed-out", problem: null };
}

const readOperator = (checkedToken?: string): Promise<OperatorView> =>
  call<OperatorView>("GET", "operator", { checkedToken }).catch((error: unknown) => {
    throw error instanceof ConnectionLost ? new Error(`${error.message} Try again when it runs.`) : error;
  });

function begin(accepted: OperatorView): void {
  refusal.value = null;
  session.value = { kind: "signed-in", operator: accepted };
}

const isUnauthorized = (error: unknown): boolean => error instanceof ApiProblem && error.status === 401;

/** The fragment is removed at once, so that no token stays in the address bar or the history. */
function takeTokenOfUrl(): string | null {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) history.replaceState(null, "", location.pathname + location.search);
  return given;
}

/**
 * Follows links with a token that are opened in this tab. The browser does not load the page again for them.
 * @param onRefused receives the reason why the token was refused and the operator stays the same
 */
export const followTokenLinks = (onRefused: (reason: string) => void): void =>
  addEventListener("hashchange", () => void followTokenLink(onRefused));

/**
 * An accepted token replaces the one of this tab. The page is then loaded again, so that nothing of the previous
 * operator stays.
 */
async function followTokenLink(onRefused: (reason: string) => void): Promise<void> {
  const given = takeTokenOfUrl();
  if (given === null) return;
  try {
    await acceptToken(given);
    location.reload();
  } catch (error) {
    const problem = errorOf(error).message;
    const name = operator.value?.name;
    if (name === undefined) session.value = { kind: "signed-out", problem };
    else onRefused(`The link's token is not used. ${problem} You are still ${name}.`);
  }
}
