// Shows openapi.json. Tokens stay in the memory of the page, and nothing is sent to a validator elsewhere.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
  docExpansion: "list",
});
