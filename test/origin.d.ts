declare const origin: { readonly fetch: (request: Request) => Promise<Response> };
export default origin;
